//! The writes and events of the failover controllers. Each patch contains the resource version of the examined binding.

use berth_api::well_known::CONDITION_EVICTIONS_PAUSED;
use berth_api::{BindingKind, Cluster, condition};
use berth_apimachinery::api_error::has_code;
use berth_apimachinery::conflict_retry::Attempts;
use berth_apimachinery::timestamp;
use berth_events::{Event, EventRecorder, Severity};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::binding::BindingRecord;
use super::rebalancing::Rebalancing;
use crate::binding_api::binding_api;

/// The reason of events about failed evictions.
const FAILED: &str = "EvictWorkloadFromClusterFailed";

/// The reason of events about evictions that ended because their cause ended.
const CANCELLED: &str = "EvictWorkloadFromClusterCancelled";

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// The write succeeded and returned this binding.
    Stored(Box<DynamicObject>),
    /// The binding has changed since it was read.
    Conflict,
    /// The binding was deleted.
    NotFound,
    /// The request failed and must be repeated.
    Failed(Box<kube::Error>),
}

/// The events to record after a write.
#[derive(Clone, Debug)]
pub(super) enum Announcement {
    /// The eviction from these clusters ends with this write. An event is recorded if the write succeeds.
    TasksEnded {
        /// The clusters in which the old copy is deleted.
        finished: Vec<String>,
        /// The clusters in which the old copy stays.
        cancelled: Vec<String>,
    },
    /// The eviction from these clusters begins with this write. An event is recorded if the write fails.
    Evicting(Vec<String>),
    /// The write rebalances the binding. An event is recorded if the write succeeds.
    Rebalanced(Rebalancing),
}

/// A client that writes bindings and records events. Clones are cheap.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) events: EventRecorder,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Patches a binding, and records the events of the announcement.
    pub(super) async fn write(
        &self,
        binding: &BindingRecord,
        mut patch: Value,
        announcement: Announcement,
    ) -> WriteOutcome {
        patch["metadata"]["resourceVersion"] = json!(binding.body.metadata.resource_version);
        let key = &binding.body.key;
        let api = binding_api(self.client.clone(), key);
        let parameters = PatchParams {
            field_manager: Some("berth-failover".to_owned()),
            ..PatchParams::default()
        };
        let written = match api
            .patch(&key.name, &parameters, &Patch::Merge(patch))
            .await
        {
            Ok(stored) => WriteOutcome::Stored(Box::new(stored)),
            Err(error) if has_code(&error, 409) => WriteOutcome::Conflict,
            Err(error) if has_code(&error, 404) => WriteOutcome::NotFound,
            Err(error) => WriteOutcome::Failed(Box::new(error)),
        };
        match (&written, announcement) {
            (
                WriteOutcome::Stored(_),
                Announcement::TasksEnded {
                    finished,
                    cancelled,
                },
            ) => {
                for cluster in finished {
                    self.record_success(binding, &cluster);
                }
                for cluster in cancelled {
                    let message =
                        format!("Evict from cluster {cluster} cancelled: its cause has ended.");
                    record(&self.events, binding, Severity::Normal, CANCELLED, &message);
                }
            }
            (WriteOutcome::Stored(_), Announcement::Rebalanced(rebalancing)) => {
                let (reason, message) = (rebalancing.reason(), rebalancing.message());
                record(&self.events, binding, Severity::Normal, reason, &message);
            }
            (WriteOutcome::Failed(_), Announcement::Evicting(clusters)) => {
                for cluster in clusters {
                    self.record_failure(binding, &cluster);
                }
            }
            _ => {}
        }
        written
    }

    /// Records that an eviction has ended, with Karmada's message.
    fn record_success(&self, binding: &BindingRecord, cluster: &str) {
        let message = format!("Evict from cluster {cluster} succeed.");
        let reason = "EvictWorkloadFromClusterSucceed";
        let component = match binding.body.key.kind() {
            BindingKind::Namespaced => "resource-binding-graceful-eviction-controller",
            BindingKind::Cluster => "cluster-resource-binding-graceful-eviction-controller",
        };
        let events = self.events.of(component);
        record(&events, binding, Severity::Normal, reason, &message);
    }

    /// Records that an eviction could not be written, with Karmada's message.
    fn record_failure(&self, binding: &BindingRecord, cluster: &str) {
        let message = format!("Evict from cluster {cluster} failed.");
        record(&self.events, binding, Severity::Warning, FAILED, &message);
    }

    /// Records what the rebalancing of a binding would do.
    pub(super) fn would_rebalance(&self, binding: &BindingRecord, rebalancing: &Rebalancing) {
        let message = format!("dry run, nothing is written: {}", rebalancing.message());
        record(
            &self.events,
            binding,
            Severity::Normal,
            "RebalanceDryRun",
            &message,
        );
    }

    /// Sets or removes the condition of a Cluster that evictions from it are paused. `message` is `None` to remove it.
    pub(super) async fn show_brake(
        &self,
        cluster: &str,
        message: Option<&str>,
    ) -> Result<(), kube::Error> {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let mut attempts = Attempts::new(clusters.get_opt(cluster).await?);
        while attempts.begin() {
            let Some(current) = attempts.known() else {
                return Ok(());
            };
            let status = current.status.as_ref().map(|status| &status.conditions[..]);
            let mut conditions = status.unwrap_or_default().to_vec();
            if let Some(message) = message {
                condition::set(
                    &mut conditions,
                    CONDITION_EVICTIONS_PAUSED,
                    condition::Status::True,
                    "TooManyClustersNotReady",
                    message,
                    timestamp::now(),
                );
            } else {
                conditions.retain(|known| known.type_ != CONDITION_EVICTIONS_PAUSED);
            }
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": current.metadata.resource_version },
                "status": { "conditions": conditions },
            }));
            let response = clusters
                .patch_status(cluster, &PatchParams::default(), &patch)
                .await;
            if attempts
                .end(response, clusters.get_opt(cluster))
                .await?
                .is_some()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Records that a binding cannot be evicted from a cluster.
    pub(super) fn eviction_refused(&self, binding: &BindingRecord, cluster: &str, cause: &str) {
        let message = format!("Evict from cluster {cluster} failed: {cause}");
        record(&self.events, binding, Severity::Warning, FAILED, &message);
    }
}

/// Records an event about a binding and its template.
fn record(
    events: &EventRecorder,
    binding: &BindingRecord,
    severity: Severity,
    reason: &'static str,
    message: &str,
) {
    let objects = [
        binding.body.reference(),
        (&binding.body.spec.resource).into(),
    ];
    for object in objects {
        events.record(Event {
            object,
            severity,
            reason,
            message: message.to_owned(),
        });
    }
}
