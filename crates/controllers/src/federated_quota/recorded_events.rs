//! The events about quotas, with the reasons and messages of Karmada.

use std::sync::Arc;

use berth_api::FederatedResourceQuota;
use berth_events::{Event, EventRecorder, Severity};
use kube::{Resource as _, ResourceExt as _};

use super::task::Part;

/// Records events about quotas. Each controller has its own name in the events.
#[derive(Debug)]
pub(super) struct QuotaEvents {
    sync: EventRecorder,
    status: EventRecorder,
    enforcement: EventRecorder,
}

impl QuotaEvents {
    /// Returns recorders that use the writer of a recorder.
    pub(super) fn new(events: &EventRecorder) -> Self {
        Self {
            sync: events.of("federated-resource-quota-sync-controller"),
            status: events.of("federated-resource-quota-status-controller"),
            enforcement: events.of("federated-resource-quota-enforcement-controller"),
        }
    }

    /// Records the success of a controller, unless the quota was deleted.
    pub(super) fn succeeded(&self, quota: Option<&Arc<FederatedResourceQuota>>, part: Part) {
        let Some(quota) = quota else { return };
        let (reason, step) = match part {
            Part::Sync => ("SyncWorkSucceed", "Sync works for"),
            Part::Status => ("AggregateStatusSucceed", "Collect status of"),
            Part::Enforcement => ("CollectOverallStatusSucceed", "Collect status of"),
        };
        let (namespace, name) = (quota.namespace().unwrap_or_default(), quota.name_any());
        let message = format!("{step} FederatedResourceQuota({namespace}/{name}) succeed.");
        let event = event(quota, Severity::Normal, reason, message);
        self.recorder(part).record_routine(event);
    }

    /// Records the failure of a controller, unless the quota was deleted.
    pub(super) fn failed(
        &self,
        quota: Option<&Arc<FederatedResourceQuota>>,
        part: Part,
        message: String,
    ) {
        let Some(quota) = quota else { return };
        let reason = match part {
            Part::Sync => "SyncWorkFailed",
            Part::Status => "AggregateStatusFailed",
            Part::Enforcement => "CollectOverallStatusFailed",
        };
        let event = event(quota, Severity::Warning, reason, message);
        self.recorder(part).record(event);
    }

    fn recorder(&self, part: Part) -> &EventRecorder {
        match part {
            Part::Sync => &self.sync,
            Part::Status => &self.status,
            Part::Enforcement => &self.enforcement,
        }
    }
}

fn event(
    quota: &FederatedResourceQuota,
    severity: Severity,
    reason: &'static str,
    message: String,
) -> Event {
    Event {
        object: quota.object_ref(&()),
        severity,
        reason,
        message,
    }
}
