//! Capacity of replicas that the scheduler has assigned to clusters and that the clusters do not report yet.
//!
//! [`AssumedCapacity`] is used with the gate SchedulingOvercommitProtection, or with a plugin that requires it. It
//! consists of shares. A share is the capacity of the replicas that a recent decision about one binding added in one
//! cluster, or that a watch event shows: a former leader or another client may have written the decision. The report of
//! the cluster already includes the earlier replicas. A share shrinks or ends when
//! - the write of the decision fails,
//! - the binding is deleted,
//! - the binding loses replicas in the cluster, or has been evicted from it,
//! - the cluster reports again after the replicas became ready, or
//! - the share expires.
//!
//! A report counts only if it was written after the status that shows the ready replicas. The resourceVersions of both
//! writes show the order, because the API server numbers the writes of all kinds together. If it numbers each kind
//! separately, this order can be wrong. If resourceVersions are no numbers, the order in which both arrive counts.

mod share;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, AssumedWorkload, ResourceRequest, ResourceRequestError};

pub(super) use self::share::is_healthy;
use self::share::{Shares, Visibility};
use crate::estimator::AssumedWork;
use crate::framework::DecisionFate;

/// Maximum lifetime of a share.
const EXPIRY: Duration = Duration::from_mins(5);
/// Maximum lifetime of a share after its replicas became ready. Usually the next report of the cluster releases the
/// share earlier. But a cluster whose last report already includes the workload may have nothing new to report. In
/// Karmada, clusters report every 10 s, so the lifetime covers six reports.
const EXPIRY_ONCE_READY: Duration = Duration::from_mins(1);

/// Assumed capacity of all bindings.
#[derive(Debug, Default)]
pub(crate) struct AssumedCapacity {
    entries: HashMap<BindingKey, Entry>,
    /// The sum of all shares. It is kept, because the sum over thousands of shares would take longer than a decision.
    total: Assumed,
    /// Time before which no share expires.
    next_expiry: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    shares: Shares,
    /// Shares before the decision that is being written. They are restored if the write fails.
    before: Option<Shares>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.shares.is_empty() && self.before.is_none()
    }
}

impl AssumedCapacity {
    /// Returns the assumed capacity of all clusters, for the engine.
    pub(crate) fn total(&self, now: Instant) -> Assumed {
        if self.next_expiry.is_none_or(|next| next > now) {
            return self.total.clone();
        }
        let mut assumed = Assumed::default();
        for share in self.counting(now) {
            assumed.add(&share.cluster, share.workload.clone());
        }
        assumed
    }

    /// Returns the assumed capacity for a decision about a binding. Its earlier decisions without a result do not count:
    /// if one of them was stored, the write of the new decision fails.
    pub(super) fn total_for(&self, key: &BindingKey, now: Instant) -> Assumed {
        let mut assumed = self.total(now);
        if let Some(entry) = self.entries.get(key) {
            for share in entry.shares.unknown().filter(|share| share.ends() > now) {
                assumed.remove(&share.cluster, &share.workload);
            }
        }
        assumed
    }

    /// Returns the assumed capacity without the capacity of ready workloads. A cluster may already report the capacity
    /// of a ready workload, which would then count twice. The second value is true if a ready workload was left out.
    pub(crate) fn unhealthy_total(&self, now: Instant) -> (Assumed, bool) {
        let (mut assumed, mut any_ready) = (Assumed::default(), false);
        for share in self.counting(now) {
            if share.ready.is_none() {
                assumed.add(&share.cluster, share.workload.clone());
            } else {
                any_ready = true;
            }
        }
        (assumed, any_ready)
    }

    /// Iterates over the assumed workloads and their clusters. The workloads are encoded for requests to the accurate
    /// estimators.
    pub(super) fn estimator_work(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&str, Arc<AssumedWork>)> {
        self.counting(now)
            .filter_map(|share| Some((share.cluster.as_str(), share.work.clone()?)))
    }

    fn counting(&self, now: Instant) -> impl Iterator<Item = &share::Share> {
        let entries = self.entries.values();
        entries
            .flat_map(|entry| entry.shares.iter())
            .filter(move |share| share.ends() > now)
    }

    /// Changes the entry of a binding, and the sum by the change of its shares.
    fn change(&mut self, key: &BindingKey, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.entries.remove(key).unwrap_or_default();
        let old = entry.shares.clone();
        change(&mut entry);
        if !old.is_same_capacity(&entry.shares) {
            for share in old.iter() {
                self.total.remove(&share.cluster, &share.workload);
            }
            for share in entry.shares.iter() {
                self.total.add(&share.cluster, share.workload.clone());
            }
        }
        let ends = entry.shares.iter().map(share::Share::ends);
        self.next_expiry = self.next_expiry.into_iter().chain(ends).min();
        if !entry.is_empty() {
            self.entries.insert(key.clone(), entry);
        }
    }

    /// Assumes the capacity that a new decision adds. [`Self::complete`] keeps or reverts this assumption.
    pub(crate) fn decided(&mut self, binding: &Binding, targets: &[TargetCluster], now: Instant) {
        if !binding.spec.is_workload() {
            return;
        }
        self.change(&binding.key, |entry| {
            entry.shares.expire(now);
            let before = entry.before.take();
            entry.before = Some(before.unwrap_or_else(|| entry.shares.clone()));
            entry.shares.follow_decision(&binding.spec, targets, now);
        });
    }

    /// Keeps the capacity of a decision beyond [`Self::complete`], because its write may have succeeded or may still
    /// succeed.
    pub(crate) fn result_unknown(&mut self, key: &BindingKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.before = None;
            entry.shares.set_result(Visibility::Unknown);
        }
    }

    /// Completes a decision. If the write failed, restores the shares from before the decision.
    pub(crate) fn complete(&mut self, key: &BindingKey, fate: DecisionFate) {
        self.change(key, |entry| match (fate, entry.before.take()) {
            (DecisionFate::Stored, _) => {
                // This write required the version of the binding that earlier writes without a result required, too.
                entry.shares.remove_unknown();
                entry.shares.set_result(Visibility::Written);
            }
            (DecisionFate::Dropped, None) => {}
            (DecisionFate::Dropped, Some(before)) => entry.shares = before,
        });
    }

    /// Removes a deleted binding. Returns the clusters of its shares.
    pub(super) fn remove(&mut self, key: &BindingKey) -> Vec<String> {
        let mut clusters = Vec::new();
        self.change(key, |entry| {
            clusters.extend(entry.shares.iter().map(|share| share.cluster.clone()));
            *entry = Entry::default();
        });
        clusters
    }

    /// Handles a change of a binding. Releases the shares of clusters that the workload left, assumes the replicas that
    /// another client added, and records the clusters in which the replicas became ready.
    pub(crate) fn observe(&mut self, old: &Binding, new: &Binding, now: Instant) {
        let spec_changed = old.spec.clusters != new.spec.clusters
            || old.spec.graceful_eviction_tasks != new.spec.graceful_eviction_tasks;
        let grows = spec_changed && new.spec.is_workload();
        if !grows && !self.entries.contains_key(&new.key) {
            return;
        }
        self.change(&new.key, |entry| {
            for shares in [Some(&mut entry.shares), entry.before.as_mut()]
                .into_iter()
                .flatten()
            {
                shares.remove_evicted(old, new);
                shares.follow_reductions(&old.spec, &new.spec);
            }
            match &mut entry.before {
                // The decision in flight is dropped: its write requires the old version of the binding.
                Some(before) => before.follow_growth(&old.spec, &new.spec, now),
                None => entry.shares.follow_growth(&old.spec, &new.spec, now),
            }
            if old.resource_version() != new.resource_version() {
                entry.shares.remove_unknown();
                if let Some(before) = &mut entry.before {
                    before.remove_unknown();
                }
            }
            entry.shares.record_readiness(old, new, now);
        });
    }

    /// Handles a new report of a cluster, which was written with this resourceVersion. Releases the shares of the
    /// replicas that were ready before the report.
    pub(crate) fn cluster_reported(&mut self, cluster: &str, version: &str) {
        let version = version.parse().ok();
        let includes = |share: &share::Share| share.is_in_report(cluster, version);
        let affected = self.entries.iter();
        let affected: Vec<BindingKey> = affected
            .filter(|(_, entry)| entry.shares.iter().any(includes))
            .map(|(key, _)| key.clone())
            .collect();
        for key in affected {
            self.change(&key, |entry| entry.shares.retain(|share| !includes(share)));
        }
    }

    /// Assumes the capacity of a binding that was scheduled before this process started. `age` is the time since
    /// the binding was scheduled. Where its replicas are ready, the last report of the cluster may include them or not,
    /// so that they count until the next report.
    pub(super) fn restore(&mut self, binding: &Binding, age: Duration, now: Instant) {
        if !binding.spec.is_workload() || age >= EXPIRY {
            return;
        }
        self.change(&binding.key, |entry| {
            entry
                .shares
                .restore(binding, now + EXPIRY.saturating_sub(age), now);
        });
    }

    /// Returns the next time at which [`Self::expire`] may remove a share.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.next_expiry
    }

    /// Removes expired shares. Returns their clusters.
    pub(super) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        let mut expired = BTreeSet::new();
        if self.next_expiry.is_none_or(|next| next > now) {
            return expired;
        }
        let keys: Vec<BindingKey> = self.entries.keys().cloned().collect();
        self.next_expiry = None;
        for key in keys {
            self.change(&key, |entry| expired.extend(entry.shares.expire(now)));
        }
        expired
    }
}

/// Returns the capacity of this number of replicas. If the binding has components, their own numbers of replicas apply
/// instead of `replicas`.
pub(crate) fn assumed_workload(
    spec: &BindingSpec,
    replicas: i32,
) -> Result<AssumedWorkload, ResourceRequestError> {
    let components = if spec.components.is_empty() {
        let request = match &spec.replica_requirements {
            Some(requirements) => ResourceRequest::new(&requirements.resource_request)?,
            None => ResourceRequest::default(),
        };
        vec![(replicas, request)]
    } else {
        let component = |component: &berth_api::binding::Component| {
            let request = match &component.replica_requirements {
                Some(requirements) => ResourceRequest::new(&requirements.resource_request)?,
                None => ResourceRequest::default(),
            };
            Ok((component.replicas, request))
        };
        spec.components
            .iter()
            .map(component)
            .collect::<Result<_, _>>()?
    };
    Ok(AssumedWorkload { components })
}

#[cfg(test)]
mod tests;
