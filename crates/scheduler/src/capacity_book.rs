//! The effects of scheduling decisions that the reports of the clusters do not include yet (like the assume cache of
//! kube-scheduler). The report of a cluster is the resource summary in the status of its Cluster object.
//!
//! The [`CapacityBook`] makes no decisions. It combines five records:
//! - [`assumed_capacity`]: capacity of the replicas that decisions assign,
//! - `earlier_requests`: requests of replicas that clusters report with an earlier request,
//! - [`affinity_groups`]: clusters of the workloads in each affinity group,
//! - `reservations`: capacity for bindings that preempt other bindings,
//! - [`pending_evictions`]: capacity that preempted workloads have released.

pub(crate) mod affinity_groups;
pub(crate) mod assumed_capacity;
mod earlier_requests;
pub(crate) mod pending_evictions;
mod reservations;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::binding::TargetCluster;
use berth_api::feature_gates::EngineGates;
use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, EarlierRequest, Placement, WorkloadPeers};

pub use self::affinity_groups::AffinityGroups;
use self::assumed_capacity::AssumedCapacity;
use self::earlier_requests::EarlierRequests;
use self::pending_evictions::PendingEvictions;
use self::reservations::Reservations;
use crate::estimator::AssumedWork;
use crate::framework::DecisionFate;

/// The effects of decisions that the clusters do not report yet.
#[derive(Debug, Default)]
pub(crate) struct CapacityBook {
    /// Present if the gate SchedulingOvercommitProtection is on, or if a plugin requires assumed capacity.
    assumed: Option<AssumedCapacity>,
    /// Present if the gate WorkloadAffinity is on.
    groups: Option<AffinityGroups>,
    /// Present if the gate EstimateGrownRequests is on.
    earlier: Option<EarlierRequests>,
    reservations: Reservations,
    pending_evictions: PendingEvictions,
}

impl CapacityBook {
    /// Creates an empty book, which does not assume capacity yet.
    pub(crate) fn new(gates: EngineGates) -> Self {
        Self {
            groups: gates.workload_affinity.then(AffinityGroups::default),
            earlier: gates.estimate_grown_requests.then(EarlierRequests::default),
            ..Self::default()
        }
    }

    /// Starts to assume capacity for decisions. Has no effect on a book that already assumes capacity.
    pub(crate) fn enable_assumed_capacity(&mut self) {
        self.assumed.get_or_insert_default();
    }

    /// Adds a binding that this process receives for the first time. If the binding was scheduled shortly before the
    /// process started, the capacity of its replicas is assumed. `time` is the current time on the wall clock, and
    /// `now` is the current time on the monotonic clock.
    pub(crate) fn binding_added(&mut self, binding: &Binding, time: jiff::Timestamp, now: Instant) {
        if let Some(groups) = &mut self.groups {
            groups.replace(None, Some(binding));
        }
        if let Some(assumed) = &mut self.assumed
            && let Some(scheduled) = &binding.status.last_scheduled_time
        {
            let age = time.duration_since(scheduled.0);
            let age = Duration::try_from(age).unwrap_or_default();
            assumed.restore(binding, age, now);
        }
    }

    /// Updates the book after a change of a binding.
    pub(crate) fn binding_changed(&mut self, old: &Binding, new: &Binding, now: Instant) {
        if let Some(groups) = &mut self.groups {
            groups.replace(Some(old), Some(new));
        }
        self.pending_evictions.observe(old, Some(new), now);
        if let Some(earlier) = &mut self.earlier {
            earlier.observe(old, new, now);
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.observe(old, new, now);
        }
    }

    /// Removes a deleted binding. Returns the clusters on which assumed capacity is released, so that the caller
    /// retries the bindings that wait for capacity. A cluster report may not trigger this retry, because a workload
    /// that never ran does not change the report.
    pub(crate) fn binding_deleted(
        &mut self,
        key: &BindingKey,
        old: Option<&Binding>,
        now: Instant,
    ) -> Vec<String> {
        if let Some(old) = old {
            self.pending_evictions.observe(old, None, now);
        }
        if let Some(groups) = &mut self.groups {
            groups.replace(old, None);
            groups.complete(key);
        }
        self.reservations.remove(key);
        if let Some(earlier) = &mut self.earlier {
            earlier.remove(key);
        }
        let assumed = self.assumed.as_mut();
        assumed
            .map(|assumed| assumed.remove(key))
            .unwrap_or_default()
    }

    /// Removes the entries that are part of a cluster's new report. `version` is the resourceVersion of the Cluster.
    /// Reports whether the cluster may have lost assumed capacity.
    pub(crate) fn cluster_reported(&mut self, cluster: &str, version: &str) -> bool {
        self.pending_evictions.cluster_reported(cluster);
        if let Some(earlier) = &mut self.earlier {
            earlier.cluster_reported(cluster);
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.cluster_reported(cluster, version);
        }
        self.assumed.is_some() || self.earlier.is_some()
    }

    /// Adds a decision that is not written yet. Further decisions take its clusters and its capacity into account. The
    /// caller must call [`Self::complete`] after the write.
    pub(crate) fn decided(&mut self, binding: &Binding, targets: &[TargetCluster], now: Instant) {
        if let Some(groups) = &mut self.groups {
            let clusters = targets.iter().map(|target| target.name.clone());
            groups.decided(&binding.key, clusters.collect());
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.decided(binding, targets, now);
        }
    }

    /// Keeps the capacity of a decision beyond [`Self::complete`], because its write may have succeeded or may still
    /// succeed.
    pub(crate) fn result_unknown(&mut self, key: &BindingKey) {
        if let Some(assumed) = &mut self.assumed {
            assumed.result_unknown(key);
        }
    }

    /// Completes a decision. If the decision was written, its capacity stays assumed. If the write failed, its capacity
    /// is released.
    pub(crate) fn complete(&mut self, key: &BindingKey, fate: DecisionFate) {
        if let Some(groups) = &mut self.groups {
            groups.complete(key);
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.complete(key, fate);
        }
    }

    /// Reserves the capacity of a placement for a binding that preempts other bindings. If `placement` is `None`,
    /// removes the reservation of the binding.
    pub(crate) fn reserve(
        &mut self,
        binding: &Binding,
        placement: Option<&Placement>,
        now: Instant,
    ) {
        self.reservations.set(binding, placement, now);
    }

    /// Removes expired shares of assumed capacity and expired evictions. Returns the clusters on which assumed capacity
    /// is released.
    pub(crate) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        self.pending_evictions.expire(now);
        let assumed = self.assumed.as_mut().map(|assumed| assumed.expire(now));
        let earlier = self.earlier.as_mut().map(|earlier| earlier.expire(now));
        assumed.into_iter().chain(earlier).flatten().collect()
    }

    /// Returns the next time at which [`Self::expire`] may release capacity.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let assumed = self.assumed.as_ref().and_then(AssumedCapacity::next_expiry);
        let earlier = self.earlier.as_ref().and_then(EarlierRequests::next_expiry);
        assumed.into_iter().chain(earlier).min()
    }

    /// Returns the request with which clusters still report the replicas of a binding, if it is smaller than the
    /// request of the binding.
    pub(crate) fn earlier_request(&self, key: &BindingKey) -> Option<EarlierRequest> {
        self.earlier.as_ref()?.of(key)
    }

    /// Reports whether the book assumes capacity for decisions.
    pub(crate) fn assumes_capacity(&self) -> bool {
        self.assumed.is_some()
    }

    /// Returns the capacity that a binding must not use: the reservations of bindings with a higher priority and, if
    /// `assumed` is true, the assumed capacity.
    pub(crate) fn taken_for(&self, binding: &Binding, assumed: bool, now: Instant) -> Assumed {
        let mut taken = match &self.assumed {
            Some(book) if assumed => book.total_for(&binding.key, now),
            _ => Assumed::default(),
        };
        self.reservations.add_to(&mut taken, binding, now);
        taken
    }

    /// Returns the capacity of [`Self::taken_for`] without the assumed capacity of healthy workloads. A cluster may
    /// already report the capacity of a healthy workload, which would then count twice. The second value is true if a
    /// healthy workload was left out.
    pub(crate) fn taken_without_healthy(
        &self,
        binding: &Binding,
        assumed: bool,
        now: Instant,
    ) -> (Assumed, bool) {
        let (mut taken, left_out_healthy) = match &self.assumed {
            Some(book) if assumed => book.unhealthy_total(now),
            _ => (Assumed::default(), false),
        };
        self.reservations.add_to(&mut taken, binding, now);
        (taken, left_out_healthy)
    }

    /// Iterates over the assumed workloads and their clusters. The workloads are encoded for requests to the accurate
    /// estimators.
    pub(crate) fn estimator_work(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&str, Arc<AssumedWork>)> {
        let assumed = self.assumed.iter();
        assumed.flat_map(move |assumed| assumed.estimator_work(now))
    }

    /// Returns the clusters of the other workloads in a binding's affinity groups, or `None` if the gate
    /// WorkloadAffinity is off. `find` looks up a binding by its key.
    pub(crate) fn peers(
        &self,
        binding: &Binding,
        find: impl Fn(&BindingKey) -> Option<Arc<Binding>>,
    ) -> Option<WorkloadPeers> {
        let groups = self.groups.as_ref()?;
        Some(groups.peers(binding, find))
    }

    /// Returns the preempted workloads that their clusters still report after the eviction.
    pub(crate) fn pending_evictions(&self) -> &PendingEvictions {
        &self.pending_evictions
    }
}
