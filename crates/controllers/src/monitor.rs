//! The metrics and the liveness of the controllers. The metrics have the names, labels and buckets of
//! karmada-controller-manager. Names of metrics that Karmada does not have begin with `berth_`.
//!
//! The controllers call the methods of [`Monitor`], and [`Monitor::text`] formats the metrics. This module must not
//! depend on the controllers.

mod families;
pub(crate) mod queue_meter;
pub(crate) mod watchdog;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::{Cluster, condition};
use berth_component_base::metrics::workqueue::{self, WorkQueue};

use self::families::Families;
use self::queue_meter::QueueMeter;
use self::watchdog::{LoopActivity, Watchdog};

/// The metrics and the liveness of all controllers of a process. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    families: Families,
    queues: Mutex<BTreeMap<&'static str, Arc<Mutex<WorkQueue>>>>,
    watchdog: Watchdog,
}

/// The result of an operation. Metrics contain this result as the value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
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
    /// Renders the metrics in the Prometheus text format 0.0.4.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(32 * 1024);
        self.0.families.encode(&mut out);
        let queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queues: Vec<_> = queues
            .iter()
            .map(|(name, queue)| (*name, queue.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        let queues: Vec<(&str, &WorkQueue)> = queues
            .iter()
            .map(|(name, queue)| (*name, &**queue))
            .collect();
        workqueue::encode(&mut out, &queues, Instant::now());
        out
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
        QueueMeter::new(Arc::clone(queues.entry(name).or_default()))
    }

    /// Records the search for the policy of a template.
    pub(crate) fn policy_matched(&self, duration: Duration) {
        self.0.families.policy_matches.observe([], duration);
    }

    /// Records the application of a policy to a template.
    pub(crate) fn policy_applied(&self, outcome: Outcome, duration: Duration) {
        let families = &self.0.families;
        families
            .policy_applications
            .observe([outcome.label()], duration);
        families.policy_attempts.increment([outcome.label()]);
    }

    /// Counts an attempt of a policy to preempt another policy.
    pub(crate) fn policy_preempted(&self, outcome: Outcome) {
        self.0.families.preemptions.increment([outcome.label()]);
    }

    /// Records a write of the Works of a binding.
    pub(crate) fn works_synced(&self, outcome: Outcome, duration: Duration) {
        let family = &self.0.families.work_syncs;
        family.observe([outcome.label()], duration);
    }

    /// Records a write of the objects of a Work to its member.
    pub(crate) fn workload_synced(&self, outcome: Outcome, duration: Duration) {
        let family = &self.0.families.workload_syncs;
        family.observe([outcome.label()], duration);
    }

    /// Records a call of an interpreter webhook. A call that fails without a request, because the webhook is paused, is
    /// also recorded.
    pub(crate) fn interpreter_webhook_called(
        &self,
        webhook: &str,
        operation: &str,
        outcome: Outcome,
        duration: Duration,
    ) {
        let family = &self.0.families.interpreter_webhooks;
        family.observe([webhook, operation, outcome.label()], duration);
    }

    /// Counts a write of an object in a member.
    pub(crate) fn member_write(&self, write: MemberWrite, of: MemberKind<'_>, outcome: Outcome) {
        let MemberKind {
            api_version,
            kind,
            cluster,
        } = of;
        let (families, result) = (&self.0.families, outcome.label());
        match write {
            MemberWrite::Create | MemberWrite::Recreate => {
                let recreate = if write == MemberWrite::Recreate {
                    "true"
                } else {
                    "false"
                };
                let labels = [result, api_version, kind, cluster, recreate];
                families.creations.increment(labels);
            }
            MemberWrite::Update => {
                let operation = match outcome {
                    Outcome::Success => "updated",
                    Outcome::Error => "none",
                };
                let labels = [result, api_version, kind, cluster, operation];
                families.updates.increment(labels);
            }
            MemberWrite::Delete => {
                let labels = [result, api_version, kind, cluster];
                families.deletions.increment(labels);
            }
        }
    }

    /// Records the status of a cluster.
    pub(crate) fn cluster_status(&self, cluster: &Cluster) {
        let Some(name) = &cluster.metadata.name else {
            return;
        };
        let families = &self.0.families.clusters;
        let status = cluster.status.clone().unwrap_or_default();
        let ready = condition::find(&status.conditions, "Ready");
        let ready = ready.is_some_and(|ready| ready.status == "True");
        families.ready.set([name], f64::from(u8::from(ready)));
        if let Some(nodes) = &status.node_summary {
            let number = |count: Option<i32>| f64::from(count.unwrap_or_default());
            families.nodes.set([name], number(nodes.total_num));
            families.ready_nodes.set([name], number(nodes.ready_num));
        }
        if let Some(resources) = &status.resource_summary {
            families.allocatable.set(name, &resources.allocatable);
            families.allocated.set(name, &resources.allocated);
        }
    }

    /// Records the collection of the status of a cluster.
    pub(crate) fn cluster_status_collected(&self, cluster: &str, duration: Duration) {
        let family = &self.0.families.clusters.collections;
        family.observe([cluster], duration);
    }

    /// Removes the metrics of a cluster that is no longer observed.
    pub(crate) fn forget_cluster(&self, cluster: &str) {
        self.0.families.clusters.remove(cluster);
    }

    /// Sets the number of bindings that wait in an eviction queue.
    pub(crate) fn eviction_queue(&self, queue: &str, depth: usize) {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let family = &self.0.families.evictions.depth;
        family.set([queue], f64::from(depth));
    }

    /// Changes the number of resources of a kind that wait for their eviction from a cluster.
    pub(crate) fn awaiting_eviction(&self, cluster: &str, kind: &str, difference: f64) {
        let family = &self.0.families.evictions.kinds;
        family.add([cluster, kind], difference);
    }

    /// Records an eviction from a queue.
    pub(crate) fn evicted(&self, queue: &str, outcome: Outcome, duration: Duration) {
        let families = &self.0.families.evictions;
        families.latency.observe([queue], duration);
        families.processed.increment([queue, outcome.label()]);
    }
}

#[cfg(test)]
mod tests;
