//! The shares of one binding: the capacity of its replicas that the clusters do not report yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use berth_api::Binding;
use berth_api::binding::{AggregatedStatusItem, BindingSpec, ResourceHealth, TargetCluster};
use berth_engine::AssumedWorkload;

use super::{EXPIRY, EXPIRY_ONCE_READY, assumed_workload};
use crate::estimator::AssumedWork;

/// The shares of a binding. A cluster may have several, because each share has its own age.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Vec<Share>);

/// The capacity that one decision added in one cluster.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub(super) cluster: String,
    replicas: i32,
    /// Time at which the share expires at the latest.
    until: Instant,
    /// Readiness of the replicas, according to the status of the binding.
    pub(super) ready: Option<Ready>,
    visibility: Visibility,
    pub(super) workload: AssumedWorkload,
    /// The workload, encoded for requests to the accurate estimators.
    pub(super) work: Option<Arc<AssumedWork>>,
}

/// The time at which replicas became ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    since: Instant,
    /// The resourceVersion of the binding whose status shows it.
    version: Option<u64>,
}

/// The progress of the replicas of a share in the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// The decision has been made, and the known state of the binding does not contain it.
    Decided,
    /// The write of the decision has no result. It succeeded before the next change of the binding, or never does.
    Unknown,
    /// The write of the decision has succeeded. The scheduler is about to apply its response to the known state.
    Written,
    /// The known state of the binding contains the replicas.
    Placed,
}

impl Share {
    /// Returns a share. Returns `None` if a quantity is malformed, because the engine rejects such a binding.
    fn new(
        spec: &BindingSpec,
        cluster: &str,
        replicas: i32,
        visibility: Visibility,
        until: Instant,
    ) -> Option<Self> {
        Some(Self {
            cluster: cluster.to_owned(),
            replicas,
            until,
            ready: None,
            visibility,
            workload: assumed_workload(spec, replicas).ok()?,
            work: AssumedWork::new(spec, replicas).ok().map(Arc::new),
        })
    }

    /// Returns the time at which the share expires.
    pub(super) fn ends(&self) -> Instant {
        let once_ready = self.ready.map(|ready| ready.since + EXPIRY_ONCE_READY);
        once_ready.map_or(self.until, |end| end.min(self.until))
    }

    /// Reports whether a report of a cluster includes the replicas. `version` is the resourceVersion of the report.
    pub(super) fn is_in_report(&self, cluster: &str, version: Option<u64>) -> bool {
        let is_later = |ready: Ready| match (version, ready.version) {
            (Some(report), Some(status)) => report > status,
            _ => true,
        };
        self.cluster == cluster && self.ready.is_some_and(is_later)
    }

    fn is_stored(&self) -> bool {
        matches!(self.visibility, Visibility::Written | Visibility::Placed)
    }

    fn is_stored_in(&self, cluster: &str) -> bool {
        self.cluster == cluster && self.is_stored()
    }

    /// Reduces the share to this number of replicas.
    fn reduce(&mut self, spec: &BindingSpec, replicas: i32) {
        let reduced = Self::new(spec, &self.cluster, replicas, self.visibility, self.until);
        if let Some(reduced) = reduced {
            let ready = self.ready;
            *self = Self { ready, ..reduced };
        }
    }
}

impl Shares {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Share> {
        self.0.iter()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Share) -> bool) {
        self.0.retain(keep);
    }

    /// Reports whether both contain the same workloads in the same clusters.
    pub(super) fn is_same_capacity(&self, other: &Self) -> bool {
        let capacity = |share: &Share| (share.cluster.clone(), share.workload.clone());
        self.0.len() == other.0.len() && self.iter().map(capacity).eq(other.iter().map(capacity))
    }

    /// Removes expired shares. Returns their clusters.
    pub(super) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        let expired = self.0.extract_if(.., |share| share.ends() <= now);
        expired.map(|share| share.cluster).collect()
    }

    /// Removes the shares whose writes have failed, as a later version of the binding shows.
    pub(super) fn remove_unknown(&mut self) {
        self.retain(|share| share.visibility != Visibility::Unknown);
    }

    /// Returns the shares whose writes have no result.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &Share> {
        self.iter()
            .filter(|share| share.visibility == Visibility::Unknown)
    }

    /// Records the result of the write of the present decision: [`Visibility::Written`] or [`Visibility::Unknown`].
    pub(super) fn set_result(&mut self, result: Visibility) {
        for share in &mut self.0 {
            if share.visibility == Visibility::Decided {
                share.visibility = result;
            }
        }
    }

    fn push(
        &mut self,
        spec: &BindingSpec,
        cluster: &str,
        replicas: i32,
        visibility: Visibility,
        now: Instant,
    ) {
        let until = now + EXPIRY;
        self.0
            .extend(Share::new(spec, cluster, replicas, visibility, until));
    }

    /// Returns the number of stored replicas in a cluster.
    fn replicas_in(&self, cluster: &str) -> i32 {
        let shares = self.iter().filter(|share| share.is_stored_in(cluster));
        shares.fold(0, |sum, share| sum.saturating_add(share.replicas))
    }

    fn has(&self, cluster: &str) -> bool {
        self.iter().any(|share| share.cluster == cluster)
    }

    /// Reduces the stored shares of a cluster to a number of replicas in total, the newest first.
    fn reduce(&mut self, spec: &BindingSpec, cluster: &str, replicas: i32) {
        let mut excess = self.replicas_in(cluster) - replicas.max(0);
        let shares = self.0.iter_mut().rev();
        for share in shares.filter(|share| share.is_stored_in(cluster)) {
            let removed = share.replicas.min(excess.max(0));
            excess -= removed;
            if removed > 0 {
                share.reduce(spec, share.replicas - removed);
            }
        }
        self.retain(|share| !share.is_stored_in(cluster) || share.replicas > 0);
    }

    /// Assumes the replicas that a decision adds. The replicas that it removes use their capacity until a change of the
    /// binding shows that the decision is stored. `spec` is the state of the binding before the decision.
    pub(super) fn follow_decision(
        &mut self,
        spec: &BindingSpec,
        targets: &[TargetCluster],
        now: Instant,
    ) {
        for target in targets {
            let placed = spec.clusters.iter().find(|old| old.name == target.name);
            if !spec.components.is_empty() {
                self.follow_sets(spec, target, placed.is_none(), now);
                continue;
            }
            let assumed = self.replicas_in(&target.name);
            // The cluster already reports the placed replicas that are not assumed.
            let reported = placed.map_or(0, |old| old.replicas) - assumed;
            let added = target.replicas.saturating_sub(reported.max(0)) - assumed;
            if added > 0 {
                self.push(spec, &target.name, added, Visibility::Decided, now);
            }
        }
    }

    /// Assumes the components of a workload in a cluster. If their requests have changed, they replace the assumed
    /// ones.
    fn follow_sets(
        &mut self,
        spec: &BindingSpec,
        target: &TargetCluster,
        is_new: bool,
        now: Instant,
    ) {
        let workload = assumed_workload(spec, target.replicas).unwrap_or_default();
        let known = self.iter().find(|share| share.cluster == target.name);
        let known = known.map(|share| share.workload == workload);
        if known == Some(true) || (known.is_none() && !is_new) {
            return;
        }
        self.retain(|share| share.cluster != target.name);
        self.push(
            spec,
            &target.name,
            target.replicas,
            Visibility::Decided,
            now,
        );
    }

    /// Releases the shares of clusters in which an eviction of the workload has ended.
    pub(super) fn remove_evicted(&mut self, old: &Binding, new: &Binding) {
        self.retain(|share| {
            let name = &share.cluster;
            let has_ended = has_task(&old.spec, name) && !has_task(&new.spec, name);
            !has_ended || new.spec.clusters.iter().any(|target| target.name == *name)
        });
    }

    /// Releases the replicas that the binding has lost. Those of an eviction task still use their capacity.
    pub(super) fn follow_reductions(&mut self, old: &BindingSpec, new: &BindingSpec) {
        for before in &old.clusters {
            if has_task(new, &before.name) {
                continue;
            }
            match new
                .clusters
                .iter()
                .find(|target| target.name == before.name)
            {
                None => {
                    self.retain(|share| share.cluster != before.name || !share.is_stored());
                }
                Some(after) if after.replicas < before.replicas && new.components.is_empty() => {
                    // The cluster reports the replicas that are not assumed, also those that leave.
                    let reported = before.replicas - self.replicas_in(&before.name);
                    self.reduce(new, &before.name, after.replicas - reported.max(0));
                }
                Some(_) => {}
            }
        }
    }

    /// Assumes the replicas that the binding has gained, unless a decision of this process added them.
    pub(super) fn follow_growth(&mut self, old: &BindingSpec, new: &BindingSpec, now: Instant) {
        for target in &new.clusters {
            let before = old.clusters.iter().find(|old| old.name == target.name);
            let mut growth = match before {
                None if !new.components.is_empty() && !self.has(&target.name) => {
                    self.push(new, &target.name, target.replicas, Visibility::Placed, now);
                    continue;
                }
                before => target
                    .replicas
                    .saturating_sub(before.map_or(0, |old| old.replicas)),
            };
            if growth <= 0 && before.is_some() {
                continue;
            }
            let shares = self.0.iter_mut();
            for share in shares.filter(|share| share.cluster == target.name) {
                if share.visibility != Visibility::Placed {
                    share.visibility = Visibility::Placed;
                    growth = growth.saturating_sub(share.replicas);
                }
            }
            if growth > 0 && new.components.is_empty() {
                self.push(new, &target.name, growth, Visibility::Placed, now);
            }
        }
    }

    /// Records the clusters in which the replicas became ready. The next report of such a cluster includes them.
    pub(super) fn record_readiness(&mut self, old: &Binding, new: &Binding, now: Instant) {
        let version = new.resource_version().parse().ok();
        for share in &mut self.0 {
            if share.is_stored() && share.ready.is_none() && became_ready(old, new, &share.cluster)
            {
                share.ready = Some(Ready {
                    since: now,
                    version,
                });
            }
        }
    }

    /// Assumes all replicas of a binding, until `until` at the latest.
    pub(super) fn restore(&mut self, binding: &Binding, until: Instant, now: Instant) {
        let version = binding.resource_version().parse().ok();
        for target in &binding.spec.clusters {
            let ready = is_ready(binding, target).then_some(Ready {
                since: now,
                version,
            });
            let share = Share::new(
                &binding.spec,
                &target.name,
                target.replicas,
                Visibility::Placed,
                until,
            );
            self.0.extend(share.map(|share| Share { ready, ..share }));
        }
    }
}

/// Reports whether an eviction of a binding from a cluster is in progress.
fn has_task(spec: &BindingSpec, cluster: &str) -> bool {
    let mut tasks = spec.graceful_eviction_tasks.iter();
    tasks.any(|task| task.from_cluster == cluster)
}

fn status_in<'a>(binding: &'a Binding, cluster: &str) -> Option<&'a AggregatedStatusItem> {
    let mut items = binding.status.aggregated_status.iter();
    items.find(|item| item.cluster_name == cluster)
}

/// Reports whether a workload is healthy in a cluster, according to the status of its binding.
pub(in crate::capacity_book) fn is_healthy(binding: &Binding, cluster: &str) -> bool {
    let status = status_in(binding, cluster);
    status.is_some_and(|item| item.health == Some(ResourceHealth::Healthy))
}

/// Returns the number of ready replicas that a cluster reports. Not all kinds report it.
fn ready_replicas(item: &AggregatedStatusItem) -> Option<i64> {
    item.status.as_ref()?.get("readyReplicas")?.as_i64()
}

/// Reports whether all replicas of a target are ready.
fn is_ready(binding: &Binding, target: &TargetCluster) -> bool {
    is_healthy(binding, &target.name)
        && status_in(binding, &target.name)
            .and_then(ready_replicas)
            .is_none_or(|ready| ready >= i64::from(target.replicas))
}

/// Reports whether the status of a changed binding shows for the first time that all replicas in a cluster are ready.
/// The status of a scaled workload may stay `Healthy`, so the number of its ready replicas counts, if it is known.
fn became_ready(old: &Binding, new: &Binding, cluster: &str) -> bool {
    let mut targets = new.spec.clusters.iter();
    let Some(target) = targets.find(|target| target.name == cluster) else {
        return false;
    };
    let status = status_in(new, cluster);
    is_ready(new, target)
        && match status.and_then(ready_replicas) {
            Some(_) => status_in(old, cluster) != status,
            None => !is_healthy(old, cluster),
        }
}
