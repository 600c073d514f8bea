//! Asks the bindings of workloads to be scheduled afresh, and writes down how that went.

use berth_api::names::binding_name;
use berth_api::workload_rebalancer::{
    ObservedWorkload, RebalanceFailedReason, RebalanceResult, WorkloadRebalancerStatus,
    WorkloadReference,
};
use berth_api::{ClusterResourceBinding, ResourceBinding, WorkloadRebalancer};
use berth_apimachinery::api_error::has_code;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::merge_diff::merge_diff;

/// Bindings of a rebalancer that are asked at the same time.
const AT_ONCE: usize = 16;
/// How often a binding is asked when others write to it at the same time.
const CONFLICT_TRIES: usize = 5;

/// Why a rebalancer is not finished.
#[derive(Debug, thiserror::Error)]
pub(super) enum RebalanceError {
    /// The server refuses a request.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// A status is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Some bindings could not be asked.
    #[error("{count} bindings could not be asked: {first}")]
    Unasked {
        /// How many.
        count: usize,
        /// What the server said of the first.
        first: Box<kube::Error>,
    },
}

impl RebalanceError {
    /// Whether the rebalancer changed meanwhile: what is seen next leads here again.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if has_code(error, 409) || has_code(error, 404))
    }
}

/// Writes to the control plane. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rebalancing {
    pub(super) client: Client,
}

impl Rebalancing {
    /// Asks the bindings of all workloads that have no result, and writes the status.
    pub(super) async fn ask(
        &self,
        rebalancer: &WorkloadRebalancer,
        mut status: WorkloadRebalancerStatus,
    ) -> Result<(), RebalanceError> {
        let made = rebalancer.creation_timestamp();
        let made = made.map_or_else(Timestamp::now, |time| time.0);
        let items = std::mem::take(&mut status.observed_workloads);
        let asked: Vec<(ObservedWorkload, Option<kube::Error>)> = stream::iter(items)
            .map(|item| self.ask_one(item, made))
            .buffered(AT_ONCE)
            .collect()
            .await;
        let (items, errors): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        status.observed_workloads = items;
        let mut errors = errors.into_iter().flatten();
        let first = errors.next();
        let before = rebalancer.status.clone().unwrap_or_default();
        if status != before {
            if first.is_none() {
                status.finish_time = Some(Time(whole_seconds(Timestamp::now())));
            }
            self.write(rebalancer, &before, &status).await?;
        }
        match first {
            None => Ok(()),
            Some(first) => Err(RebalanceError::Unasked {
                count: errors.count() + 1,
                first: Box::new(first),
            }),
        }
    }

    async fn ask_one(
        &self,
        mut item: ObservedWorkload,
        made: Timestamp,
    ) -> (ObservedWorkload, Option<kube::Error>) {
        if item.result.is_some() {
            return (item, None);
        }
        match self.trigger(&item.workload, made).await {
            Ok(()) => item.result = Some(RebalanceResult::Successful),
            Err(error) if has_code(&error, 404) => {
                item.result = Some(RebalanceResult::Failed);
                item.reason = Some(RebalanceFailedReason::ReferencedBindingNotFound);
            }
            Err(error) => return (item, Some(error)),
        }
        (item, None)
    }

    /// Asks a binding to be scheduled afresh, unless it was asked since.
    async fn trigger(
        &self,
        workload: &WorkloadReference,
        made: Timestamp,
    ) -> Result<(), kube::Error> {
        let bindings = self.bindings(&workload.namespace);
        let name = binding_name(&workload.kind, &workload.name);
        let mut tries = 1;
        loop {
            let binding = bindings.get(&name).await?;
            let asked = binding.data["spec"]["rescheduleTriggeredAt"].as_str();
            let asked: Option<Timestamp> = asked.and_then(|text| text.parse().ok());
            if asked.is_some_and(|asked| asked >= made) {
                return Ok(());
            }
            let patch = json!({
                "metadata": { "resourceVersion": binding.resource_version() },
                "spec": { "rescheduleTriggeredAt": Time(made) },
            });
            let patched = bindings
                .patch(&name, &parameters(), &Patch::Merge(patch))
                .await;
            match patched {
                Ok(_) => return Ok(()),
                Err(error) if has_code(&error, 409) && tries < CONFLICT_TRIES => tries += 1,
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

    async fn write(
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

    /// Deletes a rebalancer, unless somebody has changed it meanwhile.
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

/// As times are written in Kubernetes.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
