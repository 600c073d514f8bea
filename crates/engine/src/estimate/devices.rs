//! Requests for devices of DeviceClasses (dynamic resource allocation) in estimates from the status of clusters.

use std::borrow::Cow;

use berth_api::feature_gates::EngineGates;

use crate::request::ResourceRequest;

/// The treatment of requests for devices of DeviceClasses. The status of clusters contains no devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Devices {
    /// No cluster has the devices, as in Karmada.
    Counted,
    /// Requests for devices limit no estimate (gate DeviceClassEstimate).
    Ignored,
}

impl Devices {
    /// Returns the treatment that the feature gate DeviceClassEstimate selects.
    pub(super) fn new(gates: EngineGates) -> Self {
        if gates.device_class_estimate {
            Self::Ignored
        } else {
            Self::Counted
        }
    }

    /// Returns the part of a request that limits estimates.
    pub(super) fn counted(self, request: &ResourceRequest) -> Cow<'_, ResourceRequest> {
        match self {
            Self::Counted => Cow::Borrowed(request),
            Self::Ignored => request.without_devices(),
        }
    }
}
