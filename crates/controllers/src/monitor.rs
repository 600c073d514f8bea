//! The metrics and the liveness of the controllers. The metrics have the names, labels and buckets of
//! karmada-controller-manager. Names of metrics that Karmada does not have begin with `berth_`.
//!
//! The controllers call the methods of [`Monitor`], and [`Monitor::register`] exports the metrics. This module must not
//! depend on the controllers.

pub(crate) mod binding_health;
mod families;
pub(crate) mod queue_meter;
pub(crate) mod watchdog;

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{BindingKey, Cluster, condition};
use berth_apimachinery::timestamp;
use berth_component_base::metrics::workqueue::{self, WorkQueue};
use berth_metrics::encoding::{EncodeLabelValue, LabelValueEncoder};
use berth_metrics::{Observe as _, Registry};

use self::binding_health::{BindingHealth, HealthTimeline};
use self::families::{
    ClusterFamilies, ClusterLabels, CreationLabels, DriftLabels, EvictionFamilies, EvictionLabels,
    InterpreterFamilies, KindLabels, MigrationLabels, PropagationFamilies, QueueLabels,
    QuotaFamilies, QuotaLabels, RebalanceLabels, ResultLabels, UpdateLabels, WebhookLabels,
    WriteLabels, set_resources,
};
use self::queue_meter::QueueMeter;
use self::watchdog::{LoopActivity, Watchdog};

/// The metrics and the liveness of all controllers of a process. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    propagation: PropagationFamilies,
    clusters: ClusterFamilies,
    evictions: EvictionFamilies,
    quotas: QuotaFamilies,
    interpreter: InterpreterFamilies,
    binding_health: BindingHealth,
    queues: Mutex<BTreeMap<&'static str, Arc<Mutex<WorkQueue>>>>,
    watchdog: Watchdog,
}

/// The result of an operation. Metrics contain this result as the value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Success,
    Error,
}

impl Outcome {
    /// Returns the outcome of an operation.
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Error,
        }
    }

    fn labels(self) -> ResultLabels {
        ResultLabels { result: self }
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Success => "success",
            Self::Error => "error",
        })
    }
}

/// A type of write to an object in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberWrite {
    /// The object is created because it does not exist.
    Create,
    /// The object was created before, and is created again because it is missing.
    Recreate,
    /// The object exists and is changed.
    Update,
    /// The object is deleted because it is no longer wanted.
    Delete,
}

/// The type of a member's object, and the name of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberKind<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) cluster: &'a str,
}

impl Monitor {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let all = &*self.0;
        all.propagation.register(registry);
        all.clusters.register(registry);
        all.evictions.register(registry);
        all.quotas.register(registry);
        all.interpreter.register(registry);
        all.binding_health.register(registry, timestamp::now());
        let queues = all.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queues: Vec<_> = queues
            .iter()
            .map(|(name, queue)| (*name, queue.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        let queues: Vec<(&'static str, &WorkQueue)> = queues
            .iter()
            .map(|(name, queue)| (*name, &**queue))
            .collect();
        workqueue::register(registry, &queues, Instant::now());
    }

    /// Checks that all event loops and workers make progress.
    ///
    /// # Errors
    /// When an event loop or a worker is stuck. The error contains the names of the loops.
    pub fn check_live(&self) -> Result<(), String> {
        self.0.watchdog.check()
    }

    /// Adds an event loop to the watchdog, and returns the activity of the loop. `pending` returns the number of
    /// events that wait for the loop.
    pub(crate) fn watch_loop(
        &self,
        name: String,
        pending: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Arc<LoopActivity> {
        self.0.watchdog.add(name, pending)
    }

    /// Returns a meter for a queue. Queues with the same name share their metrics.
    pub(crate) fn queue(&self, name: &'static str) -> QueueMeter {
        let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        QueueMeter::new(name, Arc::clone(queues.entry(name).or_default()))
    }

    /// Records the search for the policy of a template.
    pub(crate) fn policy_matched(&self, duration: Duration) {
        self.0.propagation.policy_matches.observe(&[], duration);
    }

    /// Records the application of a policy to a template.
    pub(crate) fn policy_applied(&self, outcome: Outcome, duration: Duration) {
        let (families, labels) = (&self.0.propagation, outcome.labels());
        families.policy_applications.observe(&labels, duration);
        families.policy_attempts.get_or_create(&labels).inc();
    }

    /// Counts an attempt of a policy to preempt another policy.
    pub(crate) fn policy_preempted(&self, outcome: Outcome) {
        let preemptions = &self.0.propagation.preemptions;
        preemptions.get_or_create(&outcome.labels()).inc();
    }

    /// Records a write of the Works of a binding.
    pub(crate) fn works_synced(&self, outcome: Outcome, duration: Duration) {
        let syncs = &self.0.propagation.work_syncs;
        syncs.observe(&outcome.labels(), duration);
    }

    /// Records a write of the objects of a Work to its member.
    pub(crate) fn workload_synced(&self, outcome: Outcome, duration: Duration) {
        let syncs = &self.0.propagation.workload_syncs;
        syncs.observe(&outcome.labels(), duration);
    }

    /// Records a call of an interpreter webhook. A call that fails without a request, because the webhook is paused, is
    /// also recorded.
    pub(crate) fn interpreter_webhook_called(
        &self,
        webhook: &str,
        operation: &'static str,
        outcome: Outcome,
        duration: Duration,
    ) {
        let labels = WebhookLabels {
            webhook: webhook.to_owned(),
            operation,
            result: outcome,
        };
        self.0.interpreter.webhooks.observe(&labels, duration);
    }

    /// Counts a write of an object in a member.
    pub(crate) fn member_write(&self, write: MemberWrite, of: MemberKind<'_>, outcome: Outcome) {
        let families = &self.0.propagation;
        let labels = WriteLabels {
            result: outcome,
            apiversion: of.api_version.to_owned(),
            kind: of.kind.to_owned(),
            member_cluster: of.cluster.to_owned(),
        };
        match write {
            MemberWrite::Create | MemberWrite::Recreate => {
                let labels = CreationLabels {
                    write: labels,
                    recreate: write == MemberWrite::Recreate,
                };
                families.creations.get_or_create(&labels).inc();
            }
            MemberWrite::Update => {
                let labels = UpdateLabels {
                    write: labels,
                    operationResult: match outcome {
                        Outcome::Success => "updated",
                        Outcome::Error => "none",
                    },
                };
                families.updates.get_or_create(&labels).inc();
            }
            MemberWrite::Delete => {
                families.deletions.get_or_create(&labels).inc();
            }
        }
    }

    /// Counts an object in a member whose drift was corrected.
    pub(crate) fn drift_corrected(&self, of: MemberKind<'_>) {
        let labels = DriftLabels {
            apiversion: of.api_version.to_owned(),
            kind: of.kind.to_owned(),
            member_cluster: of.cluster.to_owned(),
        };
        let corrections = &self.0.propagation.drift_corrections;
        corrections.get_or_create(&labels).inc();
    }

    /// Records the status of a cluster.
    pub(crate) fn cluster_status(&self, cluster: &Cluster) {
        let Some(name) = &cluster.metadata.name else {
            return;
        };
        let (families, labels) = (&self.0.clusters, ClusterLabels::new(name));
        let status = cluster.status.clone().unwrap_or_default();
        let ready = condition::find(&status.conditions, "Ready");
        let ready = ready.is_some_and(|ready| ready.status == "True");
        let gauge = families.ready.get_or_create(&labels);
        gauge.set(f64::from(u8::from(ready)));
        if let Some(nodes) = &status.node_summary {
            let number = |count: Option<i32>| f64::from(count.unwrap_or_default());
            let gauge = families.nodes.get_or_create(&labels);
            gauge.set(number(nodes.total_num));
            let gauge = families.ready_nodes.get_or_create(&labels);
            gauge.set(number(nodes.ready_num));
        }
        if let Some(resources) = &status.resource_summary {
            set_resources(families.allocatable(), &labels, &resources.allocatable);
            set_resources(families.allocated(), &labels, &resources.allocated);
        }
    }

    /// Records the collection of the status of a cluster.
    pub(crate) fn cluster_status_collected(&self, cluster: &str, duration: Duration) {
        let collections = &self.0.clusters.collections;
        collections.observe(&ClusterLabels::new(cluster), duration);
    }

    /// Removes the metrics of a cluster that is no longer observed.
    pub(crate) fn forget_cluster(&self, cluster: &str) {
        self.0.clusters.remove(&ClusterLabels::new(cluster));
    }

    /// Sets the number of bindings that wait in an eviction queue.
    pub(crate) fn eviction_queue(&self, name: &'static str, depth: usize) {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let depths = &self.0.evictions.depth;
        let gauge = depths.get_or_create(&QueueLabels { name });
        gauge.set(f64::from(depth));
    }

    /// Changes the number of resources of a kind that wait for their eviction from a cluster.
    pub(crate) fn awaiting_eviction(&self, cluster: &str, kind: &str, difference: f64) {
        let labels = KindLabels {
            member_cluster: cluster.to_owned(),
            resource_kind: kind.to_owned(),
        };
        let kinds = &self.0.evictions.kinds;
        kinds.get_or_create(&labels).inc_by(difference);
    }

    /// Changes the number of bindings whose old copies wait for this reason.
    pub(crate) fn migrating(&self, reason: &'static str, difference: f64) {
        let gauges = &self.0.propagation.migrating;
        let gauge = gauges.get_or_create(&MigrationLabels { reason });
        gauge.inc_by(difference);
    }

    /// Counts a binding by its health. Replaces the former health of the binding.
    pub(crate) fn count_binding(&self, key: &BindingKey, health: HealthTimeline) {
        self.0.binding_health.insert(key, health);
    }

    /// Counts exactly these bindings by their health.
    pub(crate) fn count_bindings(&self, all: HashMap<BindingKey, HealthTimeline>) {
        self.0.binding_health.replace(all);
    }

    /// Stops counting a deleted binding.
    pub(crate) fn forget_binding(&self, key: &BindingKey) {
        self.0.binding_health.remove(key);
    }

    /// Records the used share of a limit of a FederatedResourceQuota.
    pub(crate) fn quota_used(&self, quota: &(String, String), resource: &str, share: f64) {
        let labels = QuotaLabels::new(quota, resource);
        self.0.quotas.used.get_or_create(&labels).set(share);
    }

    /// Removes a limit that a FederatedResourceQuota no longer has.
    pub(crate) fn forget_quota(&self, quota: &(String, String), resource: &str) {
        let labels = QuotaLabels::new(quota, resource);
        self.0.quotas.used.remove(&labels);
    }

    /// Records whether evictions are paused.
    pub(crate) fn evictions_paused(&self, is_paused: bool) {
        let gauge = self.0.evictions.paused.get_or_create(&[]);
        gauge.set(f64::from(u8::from(is_paused)));
    }

    /// Adds bindings that were rebalanced, or would have been.
    pub(crate) fn rebalanced(&self, cause: &'static str, mode: &'static str, count: u64) {
        let labels = RebalanceLabels { cause, mode };
        self.0
            .evictions
            .rebalanced
            .get_or_create(&labels)
            .inc_by(count);
    }

    /// Records an eviction from a queue.
    pub(crate) fn evicted(&self, name: &'static str, outcome: Outcome, duration: Duration) {
        let families = &self.0.evictions;
        families.latency.observe(&QueueLabels { name }, duration);
        let labels = EvictionLabels {
            name,
            result: outcome,
        };
        families.processed.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests;
