//! Capacity and placements that are taken but not visible in the Cluster objects yet.
//!
//! The [`CapacityBook`] is the only place that knows them. It decides nothing and has no clock.

pub(crate) mod affinity_groups;
pub(crate) mod assumed_capacity;
pub(crate) mod pending_evictions;
mod reservations;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::binding::TargetCluster;
use berth_core::{Assumed, Placement, WorkloadPeers};

pub use self::affinity_groups::AffinityGroups;
use self::assumed_capacity::AssumedCapacity;
use self::pending_evictions::PendingEvictions;
use self::reservations::Reservations;
use crate::binding::{Binding, BindingKey};
use crate::estimator::AssumedWork;

/// Capacity and placements that are taken but not reported yet.
#[derive(Debug, Default)]
pub(crate) struct CapacityBook {
    /// `None` unless the gate SchedulingOvercommitProtection is on or a plugin requires it.
    assumed: Option<AssumedCapacity>,
    /// `None` unless the gate WorkloadAffinity is on.
    groups: Option<AffinityGroups>,
    reservations: Reservations,
    pending_evictions: PendingEvictions,
}

impl CapacityBook {
    /// Creates an empty book.
    pub(crate) fn new(assumes_capacity: bool, workload_affinity: bool) -> Self {
        Self {
            assumed: assumes_capacity.then(AssumedCapacity::default),
            groups: workload_affinity.then(AffinityGroups::default),
            ..Self::default()
        }
    }

    /// Starts to assume the capacity of decisions, if it does not already.
    pub(crate) fn enable_assumed_capacity(&mut self) {
        self.assumed.get_or_insert_default();
    }

    /// Adds a binding that is seen for the first time. It may have been placed just before this process started.
    pub(crate) fn binding_added(&mut self, binding: &Binding) {
        if let Some(groups) = &mut self.groups {
            groups.replace(None, Some(binding));
        }
        if let Some(assumed) = &mut self.assumed
            && let Some(scheduled) = &binding.status.last_scheduled_time
        {
            let age = jiff::Timestamp::now().duration_since(scheduled.0);
            let age = Duration::try_from(age).unwrap_or_default();
            assumed.restore(binding, age, Instant::now());
        }
    }

    /// Updates the book after a change of a binding.
    pub(crate) fn binding_changed(&mut self, old: &Binding, new: &Binding, now: Instant) {
        if let Some(groups) = &mut self.groups {
            groups.replace(Some(old), Some(new));
        }
        self.pending_evictions.observe(old, Some(new), now);
        if let Some(assumed) = &mut self.assumed {
            assumed.observe(old, new, now);
        }
    }

    /// Removes a deleted binding. Returns the clusters whose assumed capacity is released: no report will show the
    /// end of a workload that never ran.
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
        let assumed = self.assumed.as_mut();
        assumed
            .map(|assumed| assumed.remove(key))
            .unwrap_or_default()
    }

    /// Releases the entries that a cluster's new report includes. Returns whether assumed capacity may have been
    /// among them.
    pub(crate) fn cluster_reported(&mut self, cluster: &str) -> bool {
        self.pending_evictions.cluster_reported(cluster);
        match &mut self.assumed {
            Some(assumed) => {
                assumed.cluster_reported(cluster);
                true
            }
            None => false,
        }
    }

    /// Adds a decision, which reduces the capacity for all further decisions until [`Self::complete`].
    pub(crate) fn decided(&mut self, binding: &Binding, targets: &[TargetCluster], now: Instant) {
        if let Some(groups) = &mut self.groups {
            let clusters = targets.iter().map(|target| target.name.clone());
            groups.decided(&binding.key, clusters.collect());
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.decided(binding, targets, now);
        }
    }

    /// Completes a decision: its capacity stays assumed if it was written, and is released otherwise.
    pub(crate) fn complete(&mut self, key: &BindingKey, written: bool) {
        if let Some(groups) = &mut self.groups {
            groups.complete(key);
        }
        if let Some(assumed) = &mut self.assumed {
            assumed.complete(key, written);
        }
    }

    /// Reserves capacity for a binding that preempts others; `None` removes its reservation.
    pub(crate) fn reserve(&mut self, binding: &Binding, place: Option<&Placement>, now: Instant) {
        self.reservations.set(binding, place, now);
    }

    /// Removes expired entries. Returns the clusters whose assumed capacity is released.
    pub(crate) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        self.pending_evictions.expire(now);
        let assumed = self.assumed.as_mut();
        assumed
            .map(|assumed| assumed.expire(now))
            .unwrap_or_default()
    }

    /// Returns the next time at which [`Self::expire`] may release assumed capacity.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.assumed.as_ref()?.next_expiry()
    }

    /// Returns whether the capacity of decisions is assumed.
    pub(crate) fn assumes_capacity(&self) -> bool {
        self.assumed.is_some()
    }

    /// Returns the capacity that a binding must not take: reservations of higher priority, and with `assumed` the
    /// assumed capacity.
    pub(crate) fn taken_for(&self, binding: &Binding, assumed: bool, now: Instant) -> Assumed {
        let mut taken = match &self.assumed {
            Some(book) if assumed => book.total(now),
            _ => Assumed::default(),
        };
        self.reservations.add_to(&mut taken, binding, now);
        taken
    }

    /// Like [`Self::taken_for`], without healthy workloads: they may already be part of a report, and would then
    /// count twice. Also returns whether there are any.
    pub(crate) fn taken_without_healthy(
        &self,
        binding: &Binding,
        assumed: bool,
        now: Instant,
    ) -> (Assumed, bool) {
        let (mut taken, unclear) = match &self.assumed {
            Some(book) if assumed => book.unhealthy_total(now),
            _ => (Assumed::default(), false),
        };
        self.reservations.add_to(&mut taken, binding, now);
        (taken, unclear)
    }

    /// Returns the assumed capacity in the form of the accurate estimators' requests.
    pub(crate) fn estimator_work(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&str, Arc<AssumedWork>)> {
        let assumed = self.assumed.iter();
        assumed.flat_map(move |assumed| assumed.estimator_work(now))
    }

    /// Returns the placement of the other members of a binding's affinity groups; `None` if the gate is off.
    pub(crate) fn peers(
        &self,
        binding: &Binding,
        find: impl Fn(&BindingKey) -> Option<Arc<Binding>>,
    ) -> Option<WorkloadPeers> {
        let groups = self.groups.as_ref()?;
        Some(groups.peers(binding, find))
    }

    /// Returns the evicted workloads that clusters still report.
    pub(crate) fn pending_evictions(&self) -> &PendingEvictions {
        &self.pending_evictions
    }
}
