//! A workload of a storm: its binding, its Works and its pods.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use berth_api::placement::Placement;
use berth_api::well_known::EVICTED_FROM;
use serde_json::{Value, json};

use super::fleet::{Fleet, name};
use super::rules::Rules;
use crate::failover::binding::BindingRecord;
use crate::failover::cluster::ClusterRecord;
use crate::failover::graceful_eviction::tests::binding_with;
use crate::propagation::binding::migration::{Limits, MemberState, Patience, Share, plan};

/// The replicas of each workload.
pub(super) const REPLICAS: i64 = 4;
/// Seconds until a replica is ready.
const START_DELAY: i64 = 30;
/// Seconds after which old replicas leave although new ones are not ready.
const TIMEOUT: i64 = 600;

/// The copy of a workload in a cluster.
#[derive(Clone, Debug, Default)]
struct Copy {
    /// The replicas in the Work; 0 while the Work is being deleted.
    work: i64,
    /// The second at which each pod was created.
    pods: Vec<i64>,
    /// The existing and the ready replicas that the member last reported.
    reported: (i64, i64),
}

/// A workload.
pub(super) struct Workload {
    pub(super) binding: BindingRecord,
    home: usize,
    copies: BTreeMap<usize, Copy>,
    /// The second since which old replicas wait.
    waits_since: Option<i64>,
}

fn number(cluster: &str) -> usize {
    cluster[1..].parse().unwrap()
}

impl Workload {
    /// Creates a workload that runs in its home cluster.
    pub(super) fn new(home: usize) -> Self {
        let copy = Copy {
            work: REPLICAS,
            pods: vec![-1000; usize::try_from(REPLICAS).unwrap()],
            reported: (REPLICAS, REPLICAS),
        };
        let mut workload = Self {
            binding: binding_with(&json!({}), &json!({})),
            home,
            copies: [(home, copy)].into(),
            waits_since: None,
        };
        let clusters = json!([{ "name": name(home), "replicas": REPLICAS }]);
        workload.patch(&json!({ "spec": { "clusters": clusters } }));
        workload
    }

    /// Reports whether nothing happens to the workload.
    pub(super) fn is_calm(&self, fleet: &Fleet) -> bool {
        self.binding.tasks.is_empty()
            && self.binding.evicted_from.is_empty()
            && self.copies.len() == 1
            && self.copies.iter().all(|(cluster, copy)| {
                let is_complete = copy.reported == (REPLICAS, REPLICAS) && copy.work == REPLICAS;
                is_complete && fleet.is_connected(*cluster) && fleet.is_ready(*cluster)
            })
    }

    /// Applies the merge patch of a controller to the binding.
    pub(super) fn patch(&mut self, patch: &Value) {
        let spec = &patch["spec"];
        let clusters = spec.get("clusters").cloned();
        let clusters = clusters.unwrap_or_else(|| json!(self.binding.clusters));
        let tasks = spec.get("gracefulEvictionTasks").cloned();
        let tasks = tasks.unwrap_or_else(|| json!(self.binding.tasks));
        let annotation = &patch["metadata"]["annotations"][EVICTED_FROM];
        let evicted_from = match annotation {
            Value::Null if patch.pointer("/metadata/annotations").is_none() => {
                self.binding.evicted_from.clone()
            }
            value => value
                .as_str()
                .into_iter()
                .flat_map(|text| text.split(','))
                .map(str::to_owned)
                .collect(),
        };
        self.rebuild(&clusters, &tasks, evicted_from);
    }

    fn rebuild(&mut self, clusters: &Value, tasks: &Value, evicted_from: Vec<String>) {
        let placement = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Aggregated" } });
        let spec = json!({ "clusters": clusters, "gracefulEvictionTasks": tasks,
            "replicas": REPLICAS, "placement": placement });
        let items = self.copies.iter().map(|(cluster, copy)| {
            let (replicas, ready) = copy.reported;
            let health = if ready >= replicas {
                "Healthy"
            } else {
                "Unhealthy"
            };
            json!({ "clusterName": name(*cluster), "health": health,
                "status": { "replicas": replicas, "readyReplicas": ready } })
        });
        let items: Vec<Value> = items.collect();
        let mut binding = binding_with(&spec, &json!({ "aggregatedStatus": items }));
        binding.body.status.scheduler_observed_generation = binding.body.metadata.generation;
        binding.placement = Some(Placement::default());
        binding.evicted_from = evicted_from;
        binding.reported = std::mem::take(&mut self.binding.reported);
        self.binding = binding;
    }

    /// Lets the members that are connected apply their Works. Returns the number of new pods.
    pub(super) fn apply(&mut self, fleet: &Fleet, second: i64) -> i64 {
        let mut created = 0;
        for (cluster, copy) in &mut self.copies {
            if !fleet.is_connected(*cluster) {
                continue;
            }
            let wanted = usize::try_from(copy.work).unwrap();
            created += wanted.saturating_sub(copy.pods.len());
            // A member removes the newest pods first.
            copy.pods.resize(wanted, second);
        }
        self.copies
            .retain(|_, copy| copy.work > 0 || !copy.pods.is_empty());
        i64::try_from(created).unwrap()
    }

    /// Lets the members that are connected report their pods.
    pub(super) fn report(&mut self, fleet: &Fleet, second: i64, now: Instant) {
        let mut has_changed = false;
        for (cluster, copy) in &mut self.copies {
            if !fleet.is_connected(*cluster) {
                continue;
            }
            let ready = ready_pods(copy, fleet.runs_since(*cluster), second);
            let report = (i64::try_from(copy.pods.len()).unwrap(), ready);
            has_changed |= copy.reported != report;
            copy.reported = report;
        }
        if has_changed || self.binding.body.status.aggregated_status.len() != self.copies.len() {
            let earlier = self.binding.clone();
            self.patch(&json!({ "spec": {} }));
            self.binding.record_changed_reports(Some(&earlier), now);
        }
    }

    /// Places the replicas that no cluster has: at home, or else where the fewest workloads of the same number live.
    pub(super) fn schedule(&mut self, fleet: &Fleet) {
        let placed: i64 = self
            .binding
            .body
            .spec
            .clusters
            .iter()
            .map(|t| i64::from(t.replicas))
            .sum();
        let missing = REPLICAS - placed;
        if missing <= 0 {
            return;
        }
        let fits = |cluster: &usize| {
            fleet.is_ready(*cluster) && !self.binding.has_task_for(&name(*cluster))
        };
        let others = (0..fleet.len()).map(|step| (self.home * 7 + step * 13) % fleet.len());
        let Some(cluster) = std::iter::once(self.home).chain(others).find(fits) else {
            return;
        };
        self.place(cluster, missing);
    }

    fn place(&mut self, cluster: usize, added: i64) {
        let mut clusters = self.binding.clusters.clone();
        let name = name(cluster);
        match clusters
            .iter_mut()
            .find(|stored| stored["name"] == name.as_str())
        {
            Some(stored) => {
                stored["replicas"] = json!(stored["replicas"].as_i64().unwrap_or(0) + added);
            }
            None => clusters.push(json!({ "name": name, "replicas": added })),
        }
        self.patch(&json!({ "spec": { "clusters": clusters } }));
    }

    /// Decides afresh: the home cluster gets all replicas if it is ready.
    pub(super) fn return_home(&mut self, clusters: &HashMap<String, ClusterRecord>) {
        let home = name(self.home);
        if clusters
            .get(&home)
            .is_some_and(|record| record.ready_since.is_some())
        {
            let clusters = json!([{ "name": home, "replicas": REPLICAS }]);
            self.patch(&json!({ "spec": { "clusters": clusters } }));
        }
    }

    /// Writes the Works, as the binding controller does.
    pub(super) fn write_works(&mut self, fleet: &Fleet, rules: &Rules, second: i64) {
        let targets: BTreeMap<usize, i64> = self
            .binding
            .body
            .spec
            .clusters
            .iter()
            .map(|target| (number(&target.name), i64::from(target.replicas)))
            .collect();
        for cluster in targets.keys() {
            self.copies.entry(*cluster).or_default();
        }
        let granted = if rules.keeps_old_replicas {
            self.migrate(fleet, &targets, second)
        } else {
            let desired = |cluster| targets.get(cluster).copied().unwrap_or(0);
            self.copies.keys().map(desired).collect()
        };
        for ((cluster, copy), granted) in self.copies.iter_mut().zip(granted) {
            let is_evicted = self.binding.has_task_for(&name(*cluster));
            if !is_evicted || targets.contains_key(cluster) {
                copy.work = granted;
            }
        }
    }

    /// Returns what each copy gets while old replicas stay until new ones are ready.
    fn migrate(&mut self, fleet: &Fleet, targets: &BTreeMap<usize, i64>, second: i64) -> Vec<i64> {
        let shares = self.copies.iter().map(|(cluster, copy)| Share {
            desired: targets.get(cluster).copied().unwrap_or(0),
            applied: copy.work,
            ready: copy.reported.1,
            running: copy.reported.0,
            member: if fleet.is_ready(*cluster) {
                MemberState::Reporting
            } else {
                MemberState::Silent
            },
        });
        let shares: Vec<Share> = shares.collect();
        let expired = self
            .waits_since
            .is_some_and(|since| second - since >= TIMEOUT);
        let limits = Limits {
            wanted: REPLICAS,
            surge: None,
            moving: None,
            patience: if expired {
                Patience::Expired
            } else {
                Patience::Waiting
            },
        };
        let granted = plan(&shares, &limits);
        let waits = granted
            .iter()
            .zip(&shares)
            .any(|(granted, share)| *granted > share.desired);
        self.waits_since = waits.then(|| self.waits_since.unwrap_or(second));
        granted
    }

    /// Reports whether all replicas are in the first cluster.
    pub(super) fn is_home(&self) -> bool {
        let copy = self.copies.get(&self.home);
        copy.is_some_and(|copy| copy.work == REPLICAS)
    }

    /// Returns the pods that are really ready.
    pub(super) fn ready(&self, fleet: &Fleet, second: i64) -> i64 {
        let copies = self.copies.iter();
        copies
            .map(|(cluster, copy)| ready_pods(copy, fleet.runs_since(*cluster), second))
            .sum()
    }
}

/// Returns the ready pods of a copy in a cluster that runs since a second.
fn ready_pods(copy: &Copy, runs_since: Option<i64>, second: i64) -> i64 {
    let Some(since) = runs_since else {
        return 0;
    };
    let is_ready = |created: &&i64| (**created).max(since) + START_DELAY <= second;
    i64::try_from(copy.pods.iter().filter(is_ready).count()).unwrap()
}
