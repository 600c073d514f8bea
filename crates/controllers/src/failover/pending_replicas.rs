//! The tracker of pending replicas: since when the replicas of a binding have not been ready in a cluster, and how many of
//! them no node of the cluster can run. As with karmada-descheduler, such replicas move to another cluster, but no
//! estimator is needed: the pods in the member tell it.
//!
//! The scheduler may put replicas back into the same cluster. Each attempt therefore doubles the wait for the next.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_api::placement::{Placement, ReplicaDivisionPreference, ReplicaSchedulingType};
use berth_api::policy::PurgeMode;
use serde_json::{Value, json};

use super::binding::BindingRecord;
use super::report::Reports;

/// The time for which an attempt counts.
const MEMORY: Duration = Duration::from_hours(6);
/// The maximum number of times that attempts double the wait.
const MOST_DOUBLINGS: u32 = 6;

/// The reason of tasks for evictions of replicas that no node can run.
const REASON: &str = "ReplicasUnschedulable";
/// The producer of these tasks.
const PRODUCER: &str = "berth-rebalance";

/// The pending replicas, by binding and cluster. The times are stored in memory only, so the measurement starts again after
/// a restart.
#[derive(Debug, Default)]
pub(super) struct PendingReplicas(HashMap<BindingKey, HashMap<String, Pending>>);

/// The replicas of a binding in a cluster.
#[derive(Debug, Default)]
struct Pending {
    /// The time since which replicas have not been ready.
    since: Option<Instant>,
    count: Count,
    attempts: u32,
    last_attempt: Option<Instant>,
}

/// The count of the pods that no node can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Count {
    #[default]
    Unknown,
    Asked,
    Known(i64),
}

/// The decision about the pending replicas of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The clusters in which to count the pods that no node can run.
    pub(super) count_in: Vec<String>,
    /// The replicas that move, by cluster.
    pub(super) moves: Vec<(String, i64)>,
    /// The time at which to decide again.
    pub(super) next: Option<Instant>,
}

impl PendingReplicas {
    /// Records the reports about a binding, and returns the decision. `after` is the time for which replicas may be pending.
    pub(super) fn observe(
        &mut self,
        reports: &Reports<'_>,
        after: Duration,
        now: Instant,
    ) -> Verdict {
        let binding = reports.binding;
        let mut verdict = Verdict::default();
        if !can_move(binding) {
            self.forget(&binding.body.key);
            return verdict;
        }
        // The attempts still count: the scheduler has not answered the last one yet.
        if !binding.is_observed_by_scheduler() {
            return verdict;
        }
        let known = self.0.entry(binding.body.key.clone()).or_default();
        for target in &binding.body.spec.clusters {
            let pending = known.entry(target.name.clone()).or_default();
            if pending.last_attempt.is_some_and(|last| last + MEMORY < now) {
                pending.attempts = 0;
            }
            let ready = ready_replicas(binding, &target.name);
            let missing = i64::from(target.replicas) - ready;
            if missing <= 0 || !reports.is_ready(&target.name) {
                pending.since = None;
                pending.count = Count::Unknown;
                continue;
            }
            let since = *pending.since.get_or_insert(now);
            let due = since + after * 2_u32.pow(pending.attempts.min(MOST_DOUBLINGS));
            if now < due {
                verdict.next = Some(verdict.next.map_or(due, |next| next.min(due)));
                continue;
            }
            match pending.count {
                Count::Unknown => {
                    pending.count = Count::Asked;
                    verdict.count_in.push(target.name.clone());
                }
                Count::Asked => {}
                Count::Known(count) if count > 0 => {
                    verdict
                        .moves
                        .push((target.name.clone(), count.min(missing)));
                }
                // The pods wait for something else, such as an image.
                Count::Known(_) => {
                    pending.since = Some(now);
                    pending.count = Count::Unknown;
                    let due = now + after;
                    verdict.next = Some(verdict.next.map_or(due, |next| next.min(due)));
                }
            }
        }
        known.retain(|cluster, pending| {
            binding.is_placed_on(cluster) || pending.last_attempt.is_some()
        });
        verdict
    }

    /// Records that the pods of a binding in a cluster could not be asked for, because all workers are busy.
    pub(super) fn ask_again(&mut self, key: &BindingKey, cluster: &str) {
        let known = self.0.get_mut(key).and_then(|known| known.get_mut(cluster));
        if let Some(pending) = known {
            pending.count = Count::Unknown;
        }
    }

    /// Records how many pods of a binding no node of a cluster can run. `None` means that they could not be counted.
    pub(super) fn counted(&mut self, key: &BindingKey, cluster: &str, count: Option<i64>) {
        let known = self.0.get_mut(key).and_then(|known| known.get_mut(cluster));
        if let Some(pending) = known {
            pending.count = Count::Known(count.unwrap_or(0));
        }
    }

    /// Records that replicas have left a cluster, or would have left it.
    pub(super) fn moved(&mut self, key: &BindingKey, cluster: &str, now: Instant) {
        let known = self.0.get_mut(key).and_then(|known| known.get_mut(cluster));
        if let Some(pending) = known {
            pending.since = None;
            pending.count = Count::Unknown;
            pending.attempts += 1;
            pending.last_attempt = Some(now);
        }
    }

    /// Removes a binding.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }
}

/// Returns the patch that takes the replicas from the clusters, so that the scheduler places them again. A cluster that can
/// run none of its replicas gets an eviction task, which keeps the scheduler from choosing it again.
pub(super) fn patch(binding: &BindingRecord, moves: &[(String, i64)]) -> Value {
    let mut tasks = binding.tasks.clone();
    let mut clusters = Vec::with_capacity(binding.clusters.len());
    for mut stored in binding.clusters.iter().cloned() {
        let name = stored["name"].as_str().unwrap_or_default().to_owned();
        let assigned = stored["replicas"].as_i64().unwrap_or(0);
        match moves.iter().find(|(moved, _)| *moved == name) {
            Some((_, count)) if *count < assigned => {
                stored["replicas"] = json!(assigned - count);
                clusters.push(stored);
            }
            Some(_) if !binding.has_task_for(&name) => tasks.push(json!({
                "fromCluster": name,
                "replicas": assigned,
                "purgeMode": PurgeMode::Gracefully,
                "reason": REASON,
                "producer": PRODUCER,
            })),
            Some(_) => {}
            None => clusters.push(stored),
        }
    }
    json!({ "spec": { "clusters": clusters, "gracefulEvictionTasks": tasks } })
}

/// Reports whether the scheduler may place the replicas of a binding in other clusters. As in karmada-descheduler, it may
/// not if their number in each cluster is fixed.
fn can_move(binding: &BindingRecord) -> bool {
    let spec = &binding.body.spec;
    has_pods(&spec.resource.api_version, &spec.resource.kind)
        && spec.placement.as_ref().is_some_and(divides_by_capacity)
        && !spec.scheduling_suspended()
}

/// Reports whether [`super::pending_pods`] can find the pods of a kind.
fn has_pods(api_version: &str, kind: &str) -> bool {
    api_version == "apps/v1" && (kind == "Deployment" || kind == "StatefulSet")
}

fn divides_by_capacity(placement: &Placement) -> bool {
    let Some(strategy) = &placement.replica_scheduling else {
        return false;
    };
    let is_aggregated =
        strategy.replica_division_preference == Some(ReplicaDivisionPreference::Aggregated);
    let weights = strategy.weight_preference.as_ref();
    let is_dynamic = weights.is_some_and(|weights| weights.dynamic_weight.is_some());
    placement.scheduling_type() == ReplicaSchedulingType::Divided && (is_aggregated || is_dynamic)
}

fn ready_replicas(binding: &BindingRecord, cluster: &str) -> i64 {
    let status = binding
        .status_in(cluster)
        .and_then(|item| item.status.as_ref());
    let ready = status.and_then(|status| status.get("readyReplicas")?.as_i64());
    ready.unwrap_or(0)
}

#[cfg(test)]
mod tests;
