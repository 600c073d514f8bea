//! The cancellation of an eviction whose cause has ended. The old copy still exists, so its cluster gets back the
//! replicas that no other cluster has taken over, and the eviction task ends without a deletion.
//!
//! | the cause has ended, and | result |
//! |---|---|
//! | no cluster has the replicas | the cluster gets them back |
//! | other clusters have the replicas, and are healthy | the eviction ends: the old copy is deleted |
//! | other clusters have the replicas, but are not healthy | after a taint, the unfinished replicas go back; otherwise the task stays, also after its grace period |
//!
//! A cluster that had a copy before the eviction keeps at least one replica.

use berth_api::binding::{GracefulEvictionTask, ResourceHealth};
use berth_api::placement::{ReplicaSchedulingType, SpreadField};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::eviction::Reason;
use super::report::Reports;
use super::toleration::{Tolerated, tolerated};

/// Reports whether the cause of an eviction task has ended. An application is evicted again if it does not tolerate a
/// taint of the cluster, so such a taint is a cause of every task. The cause of tasks of other controllers is unknown.
pub(super) fn has_cause_ended(
    reports: &Reports<'_>,
    task: &GracefulEvictionTask,
    now: Timestamp,
) -> bool {
    let Some(cluster) = reports.cluster(&task.from_cluster) else {
        return false;
    };
    let is_tolerated = match tolerated(reports.binding.placement.as_ref(), &cluster.taints) {
        Tolerated::Forever => true,
        Tolerated::Until(end) => end > now,
        Tolerated::No => false,
    };
    let is_over = match Reason::of(task) {
        Some(Reason::Taint) => true,
        Some(Reason::Unhealthy) => {
            reports.health(&task.from_cluster) == Some(&ResourceHealth::Healthy)
        }
        None => false,
    };
    is_over && is_tolerated && !cluster.is_leaving
}

/// The items of `spec.clusters` while evictions are cancelled.
#[derive(Debug)]
pub(super) struct Targets {
    /// The items, with unknown fields.
    pub(super) clusters: Vec<Value>,
    /// The clusters that got replicas back.
    returned: Vec<String>,
}

impl Targets {
    pub(super) fn new(clusters: &[Value]) -> Self {
        Self {
            clusters: clusters.to_vec(),
            returned: Vec::new(),
        }
    }

    /// Reports whether a cluster got replicas back.
    pub(super) fn has_changed(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Gives the cluster of a task its replicas back. Reports whether the task is cancelled. `task` is a task whose
    /// cause has ended.
    pub(super) fn give_back(&mut self, reports: &Reports<'_>, task: &GracefulEvictionTask) -> bool {
        let from = &task.from_cluster;
        if self.clusters.iter().any(|cluster| name(cluster) == from) {
            return true;
        }
        if !self.is_selected(reports, from) {
            return false;
        }
        let spec = &reports.binding.body.spec;
        let wanted = i64::from(spec.replicas);
        let placement = spec.placement.as_ref();
        let is_divided = placement
            .is_some_and(|placement| placement.scheduling_type() == ReplicaSchedulingType::Divided);
        let replicas = if is_divided && wanted > 0 {
            let evicted = i64::from(task.replicas.unwrap_or(0)).min(wanted);
            let placed: i64 = self.clusters.iter().map(replicas).sum();
            let missing = evicted.min((wanted - placed).max(0));
            let returned = missing + self.take_unfinished(reports, task, evicted - missing);
            if returned == 0 {
                return false;
            }
            returned
        } else {
            if !self.has_room(reports) && !self.drop_unfinished(reports, task) {
                return false;
            }
            wanted.max(0)
        };
        self.clusters.push(if replicas == 0 {
            json!({ "name": from })
        } else {
            json!({ "name": from, "replicas": replicas })
        });
        self.returned.push(from.clone());
        true
    }

    /// Reports whether the placement selects a cluster. If the binding has no clusters, all affinity terms of the
    /// placement count.
    fn is_selected(&self, reports: &Reports<'_>, cluster: &str) -> bool {
        let (spec, status) = (&reports.binding.body.spec, &reports.binding.body.status);
        let (Some(placement), Some(record)) = (&spec.placement, reports.cluster(cluster)) else {
            return true;
        };
        let cluster = &record.matched;
        let observed = status.scheduler_observing_affinity_name.as_deref();
        let observed = observed.filter(|name| !name.is_empty() && !self.clusters.is_empty());
        let mut terms = placement.cluster_affinities.iter();
        match observed {
            Some(observed) if !placement.cluster_affinities.is_empty() => {
                terms.any(|term| term.affinity_name == observed && term.selects(cluster))
            }
            _ => placement.selects(cluster),
        }
    }

    /// Reports whether the spread constraints allow another cluster with all replicas. Only constraints by cluster can
    /// be evaluated here. With other constraints, the clusters count as full.
    fn has_room(&self, reports: &Reports<'_>) -> bool {
        let placement = reports.binding.body.spec.placement.as_ref();
        let mut constraints = placement.into_iter().flat_map(|p| &p.spread_constraints);
        self.clusters.is_empty()
            || constraints.all(|constraint| {
                let count = i64::try_from(self.clusters.len()).unwrap_or(i64::MAX);
                constraint.spread_by_field == Some(SpreadField::Cluster)
                    && (constraint.max_groups <= 0 || count < constraint.max_groups)
            })
    }

    /// Takes up to `wanted` replicas from clusters in which they are not healthy. A cluster that had a copy before the
    /// eviction keeps one replica, and loses replicas only if it has a present report, and the report does not confirm
    /// that they are healthy. Returns the number of taken replicas.
    fn take_unfinished(
        &mut self,
        reports: &Reports<'_>,
        task: &GracefulEvictionTask,
        wanted: i64,
    ) -> i64 {
        if !may_move_back(reports, task) {
            return 0;
        }
        let mut left = wanted;
        for only_new in [true, false] {
            for cluster in &mut self.clusters {
                let (target, assigned) = (name(cluster).to_owned(), replicas(cluster));
                let is_new = is_new(task, &target);
                let is_known = reports.health(&target).is_some();
                if is_new != only_new
                    || !(is_new || is_known)
                    || self.returned.contains(&target)
                    || reports.is_healthy(&target, assigned)
                {
                    continue;
                }
                let kept = i64::from(!is_new);
                let taken = left.min(assigned - kept).max(0);
                left -= taken;
                cluster["replicas"] = json!(assigned - taken);
            }
        }
        self.clusters
            .retain(|cluster| replicas(cluster) > 0 || !is_new(task, name(cluster)));
        wanted - left
    }

    /// Removes a cluster that was added after the eviction and is not healthy. Reports whether there was one.
    fn drop_unfinished(&mut self, reports: &Reports<'_>, task: &GracefulEvictionTask) -> bool {
        let position = self.clusters.iter().position(|cluster| {
            let target = name(cluster);
            is_new(task, target) && !reports.is_healthy(target, replicas(cluster))
        });
        let position = position.filter(|_| may_move_back(reports, task));
        position.map(|at| self.clusters.remove(at)).is_some()
    }
}

/// Reports whether replicas in other clusters may move back. An unhealthy application may be healthy for a moment only,
/// so its replicas stay where they are.
fn may_move_back(reports: &Reports<'_>, task: &GracefulEvictionTask) -> bool {
    Reason::of(task) == Some(Reason::Taint) && reports.is_ready(&task.from_cluster)
}

/// Reports whether a cluster had no copy before the eviction. A task without a list of the former clusters may come
/// from Karmada; then no cluster counts as new.
fn is_new(task: &GracefulEvictionTask, cluster: &str) -> bool {
    let before = &task.clusters_before_failover;
    !before.is_empty() && before.iter().all(|former| former != cluster)
}

fn name(cluster: &Value) -> &str {
    cluster["name"].as_str().unwrap_or_default()
}

fn replicas(cluster: &Value) -> i64 {
    cluster["replicas"].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests;
