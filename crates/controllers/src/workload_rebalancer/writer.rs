//! Writes of the WorkloadRebalancer controller: triggers bindings, records the results and deletes rebalancers.

use berth_api::names::binding_name;
use berth_api::workload_rebalancer::{
    ObservedWorkload, RebalanceFailedReason, RebalanceResult, WorkloadRebalancerStatus,
    WorkloadReference,
};
use berth_api::{ClusterResourceBinding, ResourceBinding, WorkloadRebalancer};
use berth_apimachinery::api_error::{api_error_message, has_code, is_stale, is_unreachable};
use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use berth_apimachinery::merge_diff::merge_diff;
use berth_apimachinery::timestamp;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::reconciler::work_queue::RetryableError;

/// Maximum number of bindings of one rebalancer that are triggered at the same time.
const CONCURRENT_TRIGGERS: usize = 16;

/// An error after which a rebalancer is processed again.
#[derive(Debug, thiserror::Error)]
pub(super) enum RebalanceError {
    /// A request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// A status cannot be serialized.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Some bindings could not be triggered.
    #[error("cannot trigger {count} bindings: {}", api_error_message(first))]
    Trigger {
        /// The number of bindings that could not be triggered.
        count: usize,
        /// The error of the first of these bindings.
        first: Box<kube::Error>,
    },
}

impl RetryableError for RebalanceError {
    fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if is_stale(error))
    }

    fn is_outage(&self) -> bool {
        match self {
            Self::Api(error) => is_unreachable(error),
            Self::Trigger { first, .. } => is_unreachable(&**first),
            Self::Json(_) => false,
        }
    }
}

/// A writer to the control plane. Clones are cheap.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
}

impl Writer {
    /// Triggers the bindings of all workloads without a result, and writes the status of the rebalancer if it changed.
    pub(super) async fn trigger(
        &self,
        rebalancer: &WorkloadRebalancer,
        mut status: WorkloadRebalancerStatus,
    ) -> Result<(), RebalanceError> {
        let created = rebalancer.creation_timestamp();
        let created = created.map_or_else(Timestamp::now, |time| time.0);
        let items = std::mem::take(&mut status.observed_workloads);
        let triggered: Vec<(ObservedWorkload, Option<kube::Error>)> = stream::iter(items)
            .map(|item| self.trigger_workload(item, created))
            .buffered(CONCURRENT_TRIGGERS)
            .collect()
            .await;
        let (items, errors): (Vec<_>, Vec<_>) = triggered.into_iter().unzip();
        status.observed_workloads = items;
        let mut errors = errors.into_iter().flatten();
        let first = errors.next();
        let before = rebalancer.status.clone().unwrap_or_default();
        if status != before {
            if first.is_none() {
                status.finish_time = Some(Time(timestamp::now()));
            }
            self.write_status(rebalancer, &before, &status).await?;
        }
        match first {
            None => Ok(()),
            Some(first) => Err(RebalanceError::Trigger {
                count: errors.count() + 1,
                first: Box::new(first),
            }),
        }
    }

    async fn trigger_workload(
        &self,
        mut item: ObservedWorkload,
        created: Timestamp,
    ) -> (ObservedWorkload, Option<kube::Error>) {
        if item.result.is_some() {
            return (item, None);
        }
        match self.trigger_binding(&item.workload, created).await {
            Ok(()) => item.result = Some(RebalanceResult::Successful),
            Err(error) if has_code(&error, 404) => {
                item.result = Some(RebalanceResult::Failed);
                item.reason = Some(RebalanceFailedReason::ReferencedBindingNotFound);
            }
            Err(error) => return (item, Some(error)),
        }
        (item, None)
    }

    /// Triggers a new scheduling of a binding, unless the binding was already triggered at or after the creation of the
    /// rebalancer.
    async fn trigger_binding(
        &self,
        workload: &WorkloadReference,
        created: Timestamp,
    ) -> Result<(), kube::Error> {
        let bindings = self.bindings(&workload.namespace);
        let name = binding_name(&workload.kind, &workload.name);
        let mut attempts = 1;
        loop {
            let binding = bindings.get(&name).await?;
            let triggered = binding.data["spec"]["rescheduleTriggeredAt"].as_str();
            let triggered: Option<Timestamp> = triggered.and_then(|text| text.parse().ok());
            if triggered.is_some_and(|time| time >= created) {
                return Ok(());
            }
            let patch = json!({
                "metadata": { "resourceVersion": binding.resource_version() },
                "spec": { "rescheduleTriggeredAt": Time(created) },
            });
            let patched = bindings
                .patch(&name, &parameters(), &Patch::Merge(patch))
                .await;
            match patched {
                Ok(_) => return Ok(()),
                Err(error) if has_code(&error, 409) && attempts < CONFLICT_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn bindings(&self, namespace: &str) -> Api<DynamicObject> {
        let client = self.client.clone();
        if namespace.is_empty() {
            Api::all_with(client, &ApiResource::erase::<ClusterResourceBinding>(&()))
        } else {
            let resource = ApiResource::erase::<ResourceBinding>(&());
            Api::namespaced_with(client, namespace, &resource)
        }
    }

    async fn write_status(
        &self,
        rebalancer: &WorkloadRebalancer,
        before: &WorkloadRebalancerStatus,
        status: &WorkloadRebalancerStatus,
    ) -> Result<(), RebalanceError> {
        let change = merge_diff(
            &serde_json::to_value(before)?,
            &serde_json::to_value(status)?,
        );
        let patch: Value = json!({
            "metadata": { "resourceVersion": rebalancer.resource_version() },
            "status": change,
        });
        let name = rebalancer.name_any();
        let patch = Patch::Merge(patch);
        self.rebalancers()
            .patch_status(&name, &parameters(), &patch)
            .await?;
        Ok(())
    }

    /// Deletes a rebalancer, unless another client changed it since it was read.
    pub(super) async fn delete(
        &self,
        rebalancer: &WorkloadRebalancer,
    ) -> Result<(), RebalanceError> {
        let unchanged = DeleteParams::default().preconditions(Preconditions {
            uid: rebalancer.uid(),
            resource_version: rebalancer.resource_version(),
        });
        let deleted = self
            .rebalancers()
            .delete(&rebalancer.name_any(), &unchanged)
            .await;
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn rebalancers(&self) -> Api<WorkloadRebalancer> {
        Api::all(self.client.clone())
    }
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some("berth-workload-rebalancer".to_owned()),
        ..PatchParams::default()
    }
}
