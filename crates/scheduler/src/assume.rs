//! Assumed capacity: replicas that are decided, but that clusters do not report yet.
//!
//! Used under the gate SchedulingOvercommitProtection. Only the new share of a decision is counted: what ran
//! before is in the reports already. A share is given up when its write fails, when the binding goes, when
//! the workload is healthy and the cluster has reported its room anew since, or when it is too old.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::binding::{BindingSpec, ResourceHealth, TargetCluster};
use berth_core::{Assumed, AssumedWorkload, ResourceRequest, ResourceRequestError};

use crate::binding::{Binding, BindingKey};
use crate::estimator::AssumedWork;

/// How long a share is assumed at most.
pub const EXPIRY: Duration = Duration::from_mins(5);
/// How long a share is assumed at most once its workload is healthy: a cluster whose report already held the
/// workload then has nothing new to report. Several times the period of Karmada's reports, 10 s.
pub const EXPIRY_ONCE_HEALTHY: Duration = Duration::from_mins(1);

/// What is assumed of all bindings.
#[derive(Debug, Default)]
pub struct Assumptions {
    held: HashMap<BindingKey, Held>,
    /// Nothing is too old before then.
    next_expiry: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Held {
    until: Instant,
    shares: Vec<Share>,
    /// What was held before the write in flight, to go back to.
    before: Option<Vec<Share>>,
}

#[derive(Clone, Debug)]
struct Share {
    cluster: String,
    replicas: i32,
    /// Since when the workload is reported healthy there.
    healthy: Option<Instant>,
    workload: AssumedWorkload,
    /// The same for the wire of the accurate estimators.
    work: Option<Arc<AssumedWork>>,
}

impl Share {
    fn counts(&self, now: Instant) -> bool {
        self.healthy
            .is_none_or(|since| since + EXPIRY_ONCE_HEALTHY > now)
    }
}

impl Assumptions {
    /// All that is assumed now, for the engine.
    pub fn assumed(&self, now: Instant) -> Assumed {
        let mut assumed = Assumed::default();
        for share in self.counting(now) {
            assumed.add(&share.cluster, share.workload.clone());
        }
        assumed
    }

    /// What is assumed now of workloads that are not healthy yet, and whether it is less than all: those that are healthy
    /// may be in a report already, and count twice then.
    pub fn of_starting(&self, now: Instant) -> (Assumed, bool) {
        let (mut assumed, mut less) = (Assumed::default(), false);
        for share in self.counting(now) {
            if share.healthy.is_none() {
                assumed.add(&share.cluster, share.workload.clone());
            } else {
                less = true;
            }
        }
        (assumed, less)
    }

    /// All that is assumed now, for the accurate estimators.
    pub fn works(&self, now: Instant) -> impl Iterator<Item = (&str, Arc<AssumedWork>)> {
        self.counting(now)
            .filter_map(|share| Some((share.cluster.as_str(), share.work.clone()?)))
    }

    fn counting(&self, now: Instant) -> impl Iterator<Item = &Share> {
        self.held
            .values()
            .filter(move |held| held.until > now)
            .flat_map(|held| &held.shares)
            .filter(move |share| share.counts(now))
    }

    /// Assumes the new share of a decision, until [`Assumptions::landed`] or [`Assumptions::failed`].
    pub fn decided(&mut self, binding: &Binding, targets: &[TargetCluster], now: Instant) {
        let spec = &binding.spec;
        if !spec.is_workload() {
            return;
        }
        let old = self.held.remove(&binding.key);
        let (old_shares, before) = match old {
            Some(held) if held.until > now => {
                (held.shares.clone(), held.before.or(Some(held.shares)))
            }
            _ => (Vec::new(), Some(Vec::new())),
        };
        let mut shares = Vec::new();
        for target in targets {
            let placed = spec.clusters.iter().find(|old| old.name == target.name);
            let assumed = old_shares.iter().find(|share| share.cluster == target.name);
            // What is placed and not assumed is reported already.
            let reported =
                placed.map_or(0, |old| old.replicas) - assumed.map_or(0, |share| share.replicas);
            let replicas = target.replicas.saturating_sub(reported.max(0));
            let whole_sets = !spec.components.is_empty() && placed.is_none();
            if replicas > 0 || whole_sets || (assumed.is_some() && !spec.components.is_empty()) {
                push(&mut shares, spec, &target.name, replicas.max(0));
            }
        }
        self.expires(now + EXPIRY);
        self.held.insert(
            binding.key.clone(),
            Held {
                until: now + EXPIRY,
                shares,
                before,
            },
        );
    }

    /// The result was written.
    pub fn landed(&mut self, key: &BindingKey) {
        if let Some(held) = self.held.get_mut(key) {
            held.before = None;
            if held.shares.is_empty() {
                self.held.remove(key);
            }
        }
    }

    /// The result was not written: what was assumed before the decision is assumed again.
    pub fn failed(&mut self, key: &BindingKey) {
        if let Some(held) = self.held.get_mut(key)
            && let Some(before) = held.before.take()
        {
            held.shares = before;
            if held.shares.is_empty() {
                self.held.remove(key);
            }
        }
    }

    /// The binding is gone. Returns the clusters on which it had a share.
    pub fn gone(&mut self, key: &BindingKey) -> Vec<String> {
        let held = self.held.remove(key);
        let shares = held.into_iter().flat_map(|held| held.shares);
        shares.map(|share| share.cluster).collect()
    }

    /// Notes on which clusters the workload is healthy now and was not before: their next reports of their
    /// room hold it.
    pub fn observe(&mut self, old: &Binding, new: &Binding, now: Instant) {
        let Some(held) = self.held.get_mut(&new.key) else {
            return;
        };
        // What has been evicted and drained holds nothing any more.
        let going = |binding: &Binding, cluster: &str| {
            let mut tasks = binding.spec.graceful_eviction_tasks.iter();
            tasks.any(|task| task.from_cluster == cluster)
        };
        held.shares.retain(|share| {
            let drained = going(old, &share.cluster) && !going(new, &share.cluster);
            !drained || new.spec.clusters.iter().any(|t| t.name == share.cluster)
        });
        for share in &mut held.shares {
            if healthy(new, &share.cluster) && !healthy(old, &share.cluster) {
                share.healthy = Some(now);
            }
        }
        self.expires(now + EXPIRY_ONCE_HEALTHY);
    }

    /// A cluster reports its room anew: the shares of healthy workloads are in the report.
    pub fn reported(&mut self, cluster: &str) {
        self.held.retain(|_, held| {
            let count = held.shares.len();
            held.shares
                .retain(|share| share.cluster != cluster || share.healthy.is_none());
            held.shares.len() == count || !held.shares.is_empty() || held.before.is_some()
        });
    }

    /// After a start: a binding that was scheduled lately counts where it is not reported healthy yet.
    pub fn recall(&mut self, binding: &Binding, age: Duration, now: Instant) {
        if !binding.spec.is_workload() || age >= EXPIRY {
            return;
        }
        let mut shares = Vec::new();
        for target in binding
            .spec
            .clusters
            .iter()
            .filter(|target| !healthy(binding, &target.name))
        {
            push(&mut shares, &binding.spec, &target.name, target.replicas);
        }
        if !shares.is_empty() {
            let held = Held {
                until: now + EXPIRY.saturating_sub(age),
                shares,
                before: None,
            };
            self.expires(held.until);
            self.held.insert(binding.key.clone(), held);
        }
    }

    /// When [`Assumptions::expire`] may have something to do next.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.next_expiry
    }

    fn expires(&mut self, at: Instant) {
        self.next_expiry = Some(self.next_expiry.map_or(at, |next| next.min(at)));
    }

    /// Forgets what is too old. Returns the clusters that it was assumed of.
    pub fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        let mut expired = BTreeSet::new();
        if self.next_expiry.is_none_or(|next| next > now) {
            return expired;
        }
        let mut next: Option<Instant> = None;
        self.held.retain(|_, held| {
            let old = held.until <= now;
            for share in held
                .shares
                .extract_if(.., |share| old || !share.counts(now))
            {
                expired.insert(share.cluster);
            }
            if old || (held.shares.is_empty() && held.before.is_none()) {
                return false;
            }
            let healthy = held.shares.iter().filter_map(|share| share.healthy);
            let ends = healthy
                .map(|since| since + EXPIRY_ONCE_HEALTHY)
                .chain([held.until]);
            next = next.into_iter().chain(ends).min();
            true
        });
        self.next_expiry = next;
        expired
    }
}

fn healthy(binding: &Binding, cluster: &str) -> bool {
    binding
        .status
        .aggregated_status
        .iter()
        .any(|item| item.cluster_name == cluster && item.health == Some(ResourceHealth::Healthy))
}

/// A quantity that cannot be read takes no room: the engine has refused the binding for it already.
fn push(shares: &mut Vec<Share>, spec: &BindingSpec, cluster: &str, replicas: i32) {
    if let Ok(workload) = workload(spec, replicas) {
        shares.push(Share {
            cluster: cluster.to_owned(),
            replicas,
            healthy: None,
            workload,
            work: AssumedWork::new(spec, replicas).ok().map(Arc::new),
        });
    }
}

/// The room that so many replicas of a workload take.
pub(crate) fn workload(
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

    /// The replicas that are assumed of a cluster.
    fn replicas(assumptions: &Assumptions, cluster: &str, now: Instant) -> i32 {
        let assumed = assumptions.assumed(now);
        assumed
            .of(cluster)
            .iter()
            .flat_map(|workload| &workload.components)
            .map(|(replicas, _)| replicas)
            .sum()
    }

    #[test]
    fn only_the_new_share_is_counted() {
        let (mut assumptions, now) = (Assumptions::default(), Instant::now());
        let running = binding(json!([{ "name": "m1", "replicas": 3 }]), &[]);
        assumptions.decided(&running, &[target("m1", 4), target("m2", 2)], now);
        assert_eq!(
            (
                replicas(&assumptions, "m1", now),
                replicas(&assumptions, "m2", now)
            ),
            (1, 2)
        );
        assumptions.landed(&running.key);
        // Scaled again before anything was reported: the share grows by what is new.
        let placed = binding(
            json!([{ "name": "m1", "replicas": 4 }, { "name": "m2", "replicas": 2 }]),
            &[],
        );
        assumptions.decided(&placed, &[target("m1", 6), target("m2", 1)], now);
        assert_eq!(
            (
                replicas(&assumptions, "m1", now),
                replicas(&assumptions, "m2", now)
            ),
            (3, 1)
        );
    }

    #[test]
    fn a_write_that_fails_gives_its_share_up() {
        let (mut assumptions, now) = (Assumptions::default(), Instant::now());
        let new = binding(json!([]), &[]);
        assumptions.decided(&new, &[target("m1", 4)], now);
        assumptions.failed(&new.key);
        assert_eq!(replicas(&assumptions, "m1", now), 0);
        assumptions.decided(&new, &[target("m1", 2)], now);
        assumptions.landed(&new.key);
        let placed = binding(json!([{ "name": "m1", "replicas": 2 }]), &[]);
        assumptions.decided(&placed, &[target("m1", 4)], now);
        assumptions.failed(&new.key);
        assert_eq!(
            replicas(&assumptions, "m1", now),
            2,
            "what had landed stays assumed"
        );
    }

    #[test]
    fn a_share_ends_when_it_is_reported_expires_or_its_binding_goes() {
        let now = Instant::now();
        let held = || {
            let mut assumptions = Assumptions::default();
            assumptions.decided(
                &binding(json!([]), &[]),
                &[target("m1", 2), target("m2", 2)],
                now,
            );
            assumptions.landed(&binding(json!([]), &[]).key);
            assumptions
        };
        let on = |assumptions: &Assumptions, now| {
            (
                replicas(assumptions, "m1", now),
                replicas(assumptions, "m2", now),
            )
        };
        // A report does not hold what is not healthy yet, and health alone is no report.
        let mut assumptions = held();
        assumptions.reported("m1");
        assumptions.observe(&binding(json!([]), &[]), &binding(json!([]), &["m1"]), now);
        assert_eq!(on(&assumptions, now), (2, 2));
        let (starting, less) = assumptions.of_starting(now);
        let on_each = ["m1", "m2"].map(|cluster| starting.of(cluster).len());
        assert_eq!(
            (on_each, less),
            ([0, 1], true),
            "the report may have held it"
        );
        assumptions.reported("m2");
        assert_eq!(on(&assumptions, now), (2, 2));
        assert_eq!(
            on(&assumptions, now + EXPIRY_ONCE_HEALTHY),
            (0, 2),
            "the report before may have held it"
        );
        assert_eq!(
            assumptions.next_expiry(),
            Some(now + EXPIRY_ONCE_HEALTHY),
            "its clusters can help those that wait"
        );
        assumptions.reported("m1");
        assert_eq!(on(&assumptions, now), (0, 2));
        let mut assumptions = held();
        assert_eq!(replicas(&assumptions, "m1", now + EXPIRY), 0);
        assert_eq!(assumptions.next_expiry(), Some(now + EXPIRY));
        assert!(assumptions.expire(now).is_empty());
        let expired = assumptions.expire(now + EXPIRY);
        assert_eq!(expired, ["m1", "m2"].map(str::to_owned).into());
        assert!(assumptions.held.is_empty());
        let mut assumptions = held();
        assumptions.gone(&binding(json!([]), &[]).key);
        assert_eq!(replicas(&assumptions, "m1", now), 0);
    }

    #[test]
    fn after_a_start_what_was_scheduled_lately_and_is_not_healthy_counts() {
        let now = Instant::now();
        let placed = binding(
            json!([{ "name": "m1", "replicas": 3 }, { "name": "m2", "replicas": 1 }]),
            &["m2"],
        );
        let mut assumptions = Assumptions::default();
        assumptions.recall(&placed, Duration::from_mins(4), now);
        assert_eq!(
            (
                replicas(&assumptions, "m1", now),
                replicas(&assumptions, "m2", now)
            ),
            (3, 0)
        );
        assert_eq!(
            replicas(&assumptions, "m1", now + Duration::from_mins(1)),
            0,
            "its age counts"
        );
        let mut assumptions = Assumptions::default();
        assumptions.recall(&placed, EXPIRY, now);
        assert_eq!(replicas(&assumptions, "m1", now), 0);
    }
}
