//! Pending evictions: preempted workloads that have left their cluster, but that the cluster's last report still
//! counts. Their capacity is treated as free until the next report.

use std::time::{Duration, Instant};

use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, AssumedWorkload};

use super::assumed_capacity::assumed_workload;
use crate::framework::Victim;
use berth_api::well_known::PREEMPTED;

/// Maximum time to wait for the next report of a cluster.
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);

/// Preempted workloads whose graceful eviction task is complete and whose cluster has not reported since.
#[derive(Debug, Default)]
pub(crate) struct PendingEvictions(Vec<PendingEviction>);

#[derive(Debug)]
struct PendingEviction {
    key: BindingKey,
    cluster: String,
    workload: AssumedWorkload,
    until: Instant,
}

impl PendingEvictions {
    /// Adds a workload for each preemption task that `old` contains and that is missing in `new`. `new` is `None` for a
    /// deleted binding.
    pub(crate) fn observe(&mut self, old: &Binding, new: Option<&Binding>, now: Instant) {
        let has_task = |binding: &Binding, cluster: &str| {
            let mut tasks = binding.spec.graceful_eviction_tasks.iter();
            tasks.any(|task| task.reason == PREEMPTED && task.from_cluster == cluster)
        };
        for task in &old.spec.graceful_eviction_tasks {
            let cluster = &task.from_cluster;
            let left = task.reason == PREEMPTED && new.is_none_or(|new| !has_task(new, cluster));
            if !left {
                continue;
            }
            let replicas = task.replicas.unwrap_or(old.spec.replicas);
            if let Ok(workload) = assumed_workload(&old.spec, replicas) {
                self.0.push(PendingEviction {
                    key: old.key.clone(),
                    cluster: cluster.clone(),
                    workload,
                    until: now + REPORT_TIMEOUT,
                });
            }
        }
    }

    /// Removes the entries of a cluster after a report of the cluster.
    pub(crate) fn cluster_reported(&mut self, cluster: &str) {
        self.0.retain(|eviction| eviction.cluster != cluster);
    }

    /// Removes the entries whose cluster has sent no report within [`REPORT_TIMEOUT`].
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|eviction| eviction.until > now);
    }

    /// Reports whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Subtracts the capacity of the evicted workloads from the taken capacity.
    pub(crate) fn subtract_from(&self, taken: &mut Assumed) {
        for eviction in &self.0 {
            taken.free(&eviction.cluster, eviction.workload.clone());
        }
    }

    /// Reports whether there is an entry for the binding and the cluster of a victim.
    pub(crate) fn contains(&self, victim: &Victim) -> bool {
        let mut all = self.0.iter();
        all.any(|eviction| eviction.key == victim.key && eviction.cluster == victim.cluster)
    }
}
