//! Capacity of replicas that the scheduler has assigned to clusters and that the clusters do not report yet.
//!
//! [`AssumedCapacity`] is used with the gate SchedulingOvercommitProtection, or with a plugin that requires it. It
//! consists of shares. A share is the capacity of the replicas that recent decisions about one binding added in one
//! cluster. The report of the cluster already includes the earlier replicas. A share is released when
//! - the write of the decision fails,
//! - the binding is deleted,
//! - the workload is evicted from the cluster,
//! - the cluster reports again after the workload became healthy, or
//! - the share expires.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::binding::{BindingSpec, ResourceHealth, TargetCluster};
use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, AssumedWorkload, ResourceRequest, ResourceRequestError};

use crate::estimator::AssumedWork;
use crate::framework::DecisionFate;

/// Maximum lifetime of a share.
const EXPIRY: Duration = Duration::from_mins(5);
/// Maximum lifetime of a share after its workload became healthy. Usually the next report of the cluster releases the
/// share earlier. But a cluster whose last report already includes the workload may have nothing new to report. In
/// Karmada, clusters report every 10 s, so the lifetime covers six reports.
const EXPIRY_ONCE_HEALTHY: Duration = Duration::from_mins(1);

/// Assumed capacity of all bindings.
#[derive(Debug, Default)]
pub(crate) struct AssumedCapacity {
    entries: HashMap<BindingKey, Entry>,
    /// Time before which no share expires.
    next_expiry: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Entry {
    until: Instant,
    shares: Vec<Share>,
    /// Shares before the decision that is being written. They are restored if the write fails.
    before: Option<Vec<Share>>,
}

#[derive(Clone, Debug)]
struct Share {
    cluster: String,
    replicas: i32,
    /// Time at which the workload last became healthy in the cluster, according to the status of the binding.
    healthy: Option<Instant>,
    workload: AssumedWorkload,
    /// The workload, encoded for requests to the accurate estimators.
    work: Option<Arc<AssumedWork>>,
}

impl Share {
    fn counts(&self, now: Instant) -> bool {
        self.healthy
            .is_none_or(|since| since + EXPIRY_ONCE_HEALTHY > now)
    }
}

impl AssumedCapacity {
    /// Returns the assumed capacity of all clusters, for the engine.
    pub(crate) fn total(&self, now: Instant) -> Assumed {
        let mut assumed = Assumed::default();
        for share in self.counting(now) {
            assumed.add(&share.cluster, share.workload.clone());
        }
        assumed
    }

    /// Returns the assumed capacity without the capacity of healthy workloads. A cluster may already report the
    /// capacity of a healthy workload, which would then count twice. The second value is true if a healthy workload was
    /// left out.
    pub(crate) fn unhealthy_total(&self, now: Instant) -> (Assumed, bool) {
        let (mut assumed, mut any_healthy) = (Assumed::default(), false);
        for share in self.counting(now) {
            if share.healthy.is_none() {
                assumed.add(&share.cluster, share.workload.clone());
            } else {
                any_healthy = true;
            }
        }
        (assumed, any_healthy)
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

    fn counting(&self, now: Instant) -> impl Iterator<Item = &Share> {
        self.entries
            .values()
            .filter(move |entry| entry.until > now)
            .flat_map(|entry| &entry.shares)
            .filter(move |share| share.counts(now))
    }

    /// Assumes the capacity that a new decision adds. [`Self::complete`] keeps or reverts this assumption.
    pub(crate) fn decided(&mut self, binding: &Binding, targets: &[TargetCluster], now: Instant) {
        let spec = &binding.spec;
        if !spec.is_workload() {
            return;
        }
        let old = self.entries.remove(&binding.key);
        let (old_shares, before) = match old {
            Some(entry) if entry.until > now => {
                (entry.shares.clone(), entry.before.or(Some(entry.shares)))
            }
            _ => (Vec::new(), Some(Vec::new())),
        };
        let mut shares = Vec::new();
        for target in targets {
            let placed = spec.clusters.iter().find(|old| old.name == target.name);
            let assumed = old_shares.iter().find(|share| share.cluster == target.name);
            // The cluster already reports the placed replicas that are not assumed.
            let reported =
                placed.map_or(0, |old| old.replicas) - assumed.map_or(0, |share| share.replicas);
            let replicas = target.replicas.saturating_sub(reported.max(0));
            let whole_sets = !spec.components.is_empty() && placed.is_none();
            if replicas > 0 || whole_sets || (assumed.is_some() && !spec.components.is_empty()) {
                push_share(&mut shares, spec, &target.name, replicas.max(0));
            }
        }
        self.expires(now + EXPIRY);
        self.entries.insert(
            binding.key.clone(),
            Entry {
                until: now + EXPIRY,
                shares,
                before,
            },
        );
    }

    /// Completes a decision. If the write failed, restores the shares from before the decision.
    pub(crate) fn complete(&mut self, key: &BindingKey, fate: DecisionFate) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match (fate, entry.before.take()) {
            (DecisionFate::Stored, _) => {}
            (DecisionFate::Dropped, Some(before)) => entry.shares = before,
            (DecisionFate::Dropped, None) => return,
        }
        if entry.shares.is_empty() {
            self.entries.remove(key);
        }
    }

    /// Removes a deleted binding. Returns the clusters of its shares.
    pub(super) fn remove(&mut self, key: &BindingKey) -> Vec<String> {
        let entry = self.entries.remove(key);
        let shares = entry.into_iter().flat_map(|entry| entry.shares);
        shares.map(|share| share.cluster).collect()
    }

    /// Handles a change of a binding. Releases the shares of clusters from which the workload was evicted, and records
    /// the clusters in which the workload became healthy. The next report of such a cluster includes the workload.
    pub(crate) fn observe(&mut self, old: &Binding, new: &Binding, now: Instant) {
        let Some(entry) = self.entries.get_mut(&new.key) else {
            return;
        };
        // A workload whose eviction is complete takes no capacity.
        let has_task = |binding: &Binding, cluster: &str| {
            let mut tasks = binding.spec.graceful_eviction_tasks.iter();
            tasks.any(|task| task.from_cluster == cluster)
        };
        entry.shares.retain(|share| {
            let drained = has_task(old, &share.cluster) && !has_task(new, &share.cluster);
            !drained || new.spec.clusters.iter().any(|t| t.name == share.cluster)
        });
        for share in &mut entry.shares {
            if is_healthy(new, &share.cluster) && !is_healthy(old, &share.cluster) {
                share.healthy = Some(now);
            }
        }
        self.expires(now + EXPIRY_ONCE_HEALTHY);
    }

    /// Handles a new report of a cluster. Releases the shares of the healthy workloads in the cluster, because the
    /// report includes them.
    pub(crate) fn cluster_reported(&mut self, cluster: &str) {
        self.entries.retain(|_, entry| {
            let count = entry.shares.len();
            entry
                .shares
                .retain(|share| share.cluster != cluster || share.healthy.is_none());
            entry.shares.len() == count || !entry.shares.is_empty() || entry.before.is_some()
        });
    }

    /// Assumes the capacity of a binding that was scheduled before this process started. `age` is the time since
    /// the binding was scheduled. Clusters in which the workload is healthy get no share.
    pub(super) fn restore(&mut self, binding: &Binding, age: Duration, now: Instant) {
        if !binding.spec.is_workload() || age >= EXPIRY {
            return;
        }
        let mut shares = Vec::new();
        for target in binding
            .spec
            .clusters
            .iter()
            .filter(|target| !is_healthy(binding, &target.name))
        {
            push_share(&mut shares, &binding.spec, &target.name, target.replicas);
        }
        if !shares.is_empty() {
            let entry = Entry {
                until: now + EXPIRY.saturating_sub(age),
                shares,
                before: None,
            };
            self.expires(entry.until);
            self.entries.insert(binding.key.clone(), entry);
        }
    }

    /// Returns the next time at which [`Self::expire`] may remove a share.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.next_expiry
    }

    fn expires(&mut self, at: Instant) {
        self.next_expiry = Some(self.next_expiry.map_or(at, |next| next.min(at)));
    }

    /// Removes expired shares. Returns their clusters.
    pub(super) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        let mut expired = BTreeSet::new();
        if self.next_expiry.is_none_or(|next| next > now) {
            return expired;
        }
        let mut next: Option<Instant> = None;
        self.entries.retain(|_, entry| {
            let old = entry.until <= now;
            for share in entry
                .shares
                .extract_if(.., |share| old || !share.counts(now))
            {
                expired.insert(share.cluster);
            }
            if old || (entry.shares.is_empty() && entry.before.is_none()) {
                return false;
            }
            let healthy = entry.shares.iter().filter_map(|share| share.healthy);
            let ends = healthy
                .map(|since| since + EXPIRY_ONCE_HEALTHY)
                .chain([entry.until]);
            next = next.into_iter().chain(ends).min();
            true
        });
        self.next_expiry = next;
        expired
    }
}

/// Reports whether a workload is healthy in a cluster, according to the status of its binding.
pub(super) fn is_healthy(binding: &Binding, cluster: &str) -> bool {
    binding
        .status
        .aggregated_status
        .iter()
        .any(|item| item.cluster_name == cluster && item.health == Some(ResourceHealth::Healthy))
}

/// Adds a share. Adds nothing if a quantity is malformed, because the engine rejects such a binding.
fn push_share(shares: &mut Vec<Share>, spec: &BindingSpec, cluster: &str, replicas: i32) {
    if let Ok(workload) = assumed_workload(spec, replicas) {
        shares.push(Share {
            cluster: cluster.to_owned(),
            replicas,
            healthy: None,
            workload,
            work: AssumedWork::new(spec, replicas).ok().map(Arc::new),
        });
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
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(clusters: Value, healthy: &[&str]) -> Binding {
        let status: Vec<Value> = healthy
            .iter()
            .map(|name| json!({ "clusterName": name, "health": "Healthy" }))
            .collect();
        serde_json::from_value::<ResourceBinding>(json!({
            "metadata": { "name": "b", "namespace": "n" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" }, "replicas": 4,
                "replicaRequirements": { "resourceRequest": { "cpu": "1" } }, "clusters": clusters },
            "status": { "aggregatedStatus": status },
        }))
        .unwrap()
        .into()
    }

    fn target(name: &str, replicas: i32) -> TargetCluster {
        TargetCluster {
            name: name.to_owned(),
            replicas,
            components: Vec::new(),
        }
    }

    /// Returns the replicas that are assumed on a cluster.
    fn replicas(assumed: &AssumedCapacity, cluster: &str, now: Instant) -> i32 {
        let total = assumed.total(now);
        total
            .of(cluster)
            .iter()
            .flat_map(|workload| &workload.components)
            .map(|(replicas, _)| replicas)
            .sum()
    }

    #[test]
    fn only_the_new_replicas_of_a_decision_are_assumed() {
        let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
        let running = binding(json!([{ "name": "m1", "replicas": 3 }]), &[]);
        assumed.decided(&running, &[target("m1", 4), target("m2", 2)], now);
        assert_eq!(
            (replicas(&assumed, "m1", now), replicas(&assumed, "m2", now)),
            (1, 2)
        );
        assumed.complete(&running.key, DecisionFate::Stored);
        // The binding is scaled again before the first report, so its share grows by the new replicas.
        let placed = binding(
            json!([{ "name": "m1", "replicas": 4 }, { "name": "m2", "replicas": 2 }]),
            &[],
        );
        assumed.decided(&placed, &[target("m1", 6), target("m2", 1)], now);
        assert_eq!(
            (replicas(&assumed, "m1", now), replicas(&assumed, "m2", now)),
            (3, 1)
        );
    }

    #[test]
    fn a_failed_write_releases_its_share() {
        let (mut assumed, now) = (AssumedCapacity::default(), Instant::now());
        let new = binding(json!([]), &[]);
        assumed.decided(&new, &[target("m1", 4)], now);
        assumed.complete(&new.key, DecisionFate::Dropped);
        assert_eq!(replicas(&assumed, "m1", now), 0);
        assumed.decided(&new, &[target("m1", 2)], now);
        assumed.complete(&new.key, DecisionFate::Stored);
        let placed = binding(json!([{ "name": "m1", "replicas": 2 }]), &[]);
        assumed.decided(&placed, &[target("m1", 4)], now);
        assumed.complete(&new.key, DecisionFate::Dropped);
        assert_eq!(
            replicas(&assumed, "m1", now),
            2,
            "the capacity of the earlier decision stays assumed"
        );
    }

    #[test]
    fn a_report_an_expiry_or_the_deletion_of_the_binding_releases_a_share() {
        let now = Instant::now();
        let decided = || {
            let mut assumed = AssumedCapacity::default();
            assumed.decided(
                &binding(json!([]), &[]),
                &[target("m1", 2), target("m2", 2)],
                now,
            );
            assumed.complete(&binding(json!([]), &[]).key, DecisionFate::Stored);
            assumed
        };
        let on = |assumed: &AssumedCapacity, now| {
            (replicas(assumed, "m1", now), replicas(assumed, "m2", now))
        };
        // A report releases the share of a workload only if the workload became healthy before the report.
        let mut assumed = decided();
        assumed.cluster_reported("m1");
        assumed.observe(&binding(json!([]), &[]), &binding(json!([]), &["m1"]), now);
        assert_eq!(on(&assumed, now), (2, 2));
        let (unhealthy, any_healthy) = assumed.unhealthy_total(now);
        let on_each = ["m1", "m2"].map(|cluster| unhealthy.of(cluster).len());
        assert_eq!(
            (on_each, any_healthy),
            ([0, 1], true),
            "the last report of m1 may include the healthy workload"
        );
        assumed.cluster_reported("m2");
        assert_eq!(on(&assumed, now), (2, 2));
        assert_eq!(
            on(&assumed, now + EXPIRY_ONCE_HEALTHY),
            (0, 2),
            "the share of a healthy workload expires earlier"
        );
        assert_eq!(
            assumed.next_expiry(),
            Some(now + EXPIRY_ONCE_HEALTHY),
            "the next expiry is the expiry of the healthy workload's share"
        );
        assumed.cluster_reported("m1");
        assert_eq!(on(&assumed, now), (0, 2));
        let mut assumed = decided();
        assert_eq!(replicas(&assumed, "m1", now + EXPIRY), 0);
        assert_eq!(assumed.next_expiry(), Some(now + EXPIRY));
        assert!(assumed.expire(now).is_empty());
        let expired = assumed.expire(now + EXPIRY);
        assert_eq!(expired, ["m1", "m2"].map(str::to_owned).into());
        assert!(assumed.entries.is_empty());
        let mut assumed = decided();
        assumed.remove(&binding(json!([]), &[]).key);
        assert_eq!(replicas(&assumed, "m1", now), 0);
    }

    #[test]
    fn at_start_recent_placements_of_unhealthy_workloads_are_assumed() {
        let now = Instant::now();
        let placed = binding(
            json!([{ "name": "m1", "replicas": 3 }, { "name": "m2", "replicas": 1 }]),
            &["m2"],
        );
        let mut assumed = AssumedCapacity::default();
        assumed.restore(&placed, Duration::from_mins(4), now);
        assert_eq!(
            (replicas(&assumed, "m1", now), replicas(&assumed, "m2", now)),
            (3, 0)
        );
        assert_eq!(
            replicas(&assumed, "m1", now + Duration::from_mins(1)),
            0,
            "the lifetime of a share includes the time before the start"
        );
        let mut assumed = AssumedCapacity::default();
        assumed.restore(&placed, EXPIRY, now);
        assert_eq!(replicas(&assumed, "m1", now), 0);
    }
}
