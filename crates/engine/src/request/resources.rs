//! Resource requests of replicas, parsed from the resource lists of a binding.

use std::borrow::Cow;

use berth_api::cluster::ResourceList;
use berth_api::node_resources::{device_class, in_units};
use berth_api::quantity::{Quantity, QuantityError};

use crate::resource_vector::PodShape;

/// The reason why a resource request is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct ResourceRequestError {
    /// The name of the resource.
    pub resource: String,
    /// The parse error of the requested quantity.
    pub source: QuantityError,
}

/// The request of a replica for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAmount {
    /// The name of the resource.
    pub resource: String,
    /// The positive amount.
    pub quantity: Quantity,
    /// The amount, rounded up. It is in thousandths for cpu, and in whole units for other resources.
    pub units: i64,
}

/// The resource request of a replica. It contains only resources with a positive amount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    amounts: Vec<ResourceAmount>,
}

impl ResourceRequest {
    /// Parses a resource list.
    ///
    /// # Errors
    /// Returns an error if a quantity is malformed.
    pub fn new(list: &ResourceList) -> Result<Self, ResourceRequestError> {
        let mut amounts = Vec::with_capacity(list.len());
        for (resource, text) in list {
            let quantity = text.parse().map_err(|source| ResourceRequestError {
                resource: resource.clone(),
                source,
            })?;
            if quantity > Quantity::ZERO {
                amounts.push(ResourceAmount {
                    units: in_units(resource, quantity),
                    resource: resource.clone(),
                    quantity,
                });
            }
        }
        Ok(Self { amounts })
    }

    /// Returns the requests for the resources, sorted by resource name.
    pub fn amounts(&self) -> &[ResourceAmount] {
        &self.amounts
    }

    /// Returns the request without devices of DeviceClasses.
    pub(crate) fn without_devices(&self) -> Cow<'_, Self> {
        let is_device = |amount: &ResourceAmount| device_class(&amount.resource).is_some();
        if !self.amounts.iter().any(is_device) {
            return Cow::Borrowed(self);
        }
        let amounts = self.amounts.iter().filter(|amount| !is_device(amount));
        Cow::Owned(Self {
            amounts: amounts.cloned().collect(),
        })
    }

    /// Returns the request as the pod of the first-fit simulation.
    pub(crate) fn pod_shape(&self) -> PodShape {
        PodShape::new(
            self.amounts
                .iter()
                .map(|amount| (amount.resource.as_str(), amount.quantity)),
        )
    }
}
