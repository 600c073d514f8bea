//! A workload of a simulation: its binding, and its copies in the clusters.

use std::collections::BTreeMap;
use std::time::Instant;

use berth_api::placement::Placement;
use berth_api::well_known::EVICTED_FROM;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::copy::{Copy, health};
use super::fleet::{Fleet, name};
use crate::failover::binding::BindingRecord;
use crate::failover::graceful_eviction::tests::binding_with;

/// The properties of a workload.
#[derive(Clone, Debug)]
pub(in crate::failover) struct Shape {
    pub(in crate::failover) replicas: i64,
    /// The number of clusters with all replicas each, or `None` if the replicas are divided.
    pub(in crate::failover) copies: Option<usize>,
    pub(in crate::failover) surge: Option<i64>,
    pub(in crate::failover) moving: Option<i64>,
    /// Seconds until a replica is ready.
    pub(in crate::failover) start_delay: i64,
    /// Seconds after which the workload leaves a cluster in which it is not healthy.
    pub(in crate::failover) unhealthy_for: Option<i64>,
    /// The number of steps from one decision of the scheduler to the next.
    pub(in crate::failover) scheduler_period: i64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            replicas: 4,
            copies: None,
            surge: None,
            moving: None,
            start_delay: 30,
            unhealthy_for: None,
            scheduler_period: 1,
        }
    }
}

/// A workload.
pub(in crate::failover) struct Workload {
    pub(in crate::failover) binding: BindingRecord,
    pub(super) shape: Shape,
    pub(super) home: usize,
    pub(super) copies: BTreeMap<usize, Copy>,
    /// The condition that old copies wait.
    pub(super) migrating: Option<Condition>,
    pub(super) scheduled_at: Option<Timestamp>,
    /// True if the scheduler has observed the last change of the binding.
    pub(super) is_scheduled: bool,
    /// The version of the fleet at the last write of Works, or `None` if something else has changed since.
    pub(super) written_at: Option<u64>,
    /// The end of the wait of old copies, if it has one.
    pub(super) waits_until: Option<Timestamp>,
    /// The version of the fleet at which nothing happened any more, or `None` if something else has changed since.
    rests_at: Option<u64>,
}

/// Returns the number of a cluster.
pub(super) fn number(cluster: &str) -> usize {
    cluster[1..].parse().unwrap()
}

impl Workload {
    /// Creates a workload that runs in its home cluster, and in the clusters that follow if it needs several.
    pub(in crate::failover) fn new(shape: Shape, home: usize) -> Self {
        let clusters = home..home + shape.copies.unwrap_or(1);
        let copies = clusters.map(|cluster| (cluster, Copy::running(shape.replicas)));
        let mut workload = Self {
            binding: binding_with(&json!({}), &json!({})),
            home,
            copies: copies.collect(),
            shape,
            migrating: None,
            scheduled_at: None,
            is_scheduled: true,
            written_at: None,
            waits_until: None,
            rests_at: None,
        };
        let clusters: Vec<usize> = workload.copies.keys().copied().collect();
        workload.place(
            &clusters
                .into_iter()
                .map(|cluster| (cluster, workload.shape.replicas))
                .collect(),
        );
        workload
    }

    /// Reports whether nothing happens to the workload: it is where the scheduler put it, ready, and nothing is left behind.
    pub(in crate::failover) fn is_calm(&self, fleet: &Fleet) -> bool {
        let has_ended =
            self.is_scheduled && self.migrating.is_none() && self.binding.tasks.is_empty();
        if !has_ended {
            return false;
        }
        let targets = self.targets();
        let complete = |(cluster, copy): (&usize, &Copy)| {
            let is_complete = targets
                .get(cluster)
                .is_some_and(|wanted| copy.is_complete(*wanted));
            is_complete && fleet.is_connected(*cluster) && fleet.fits(*cluster)
        };
        let mut evicted_from = self.binding.evicted_from.iter();
        self.copies.len() == targets.len()
            && self.copies.iter().all(complete)
            && self.is_completely_placed()
            && evicted_from.all(|from| targets.contains_key(&number(from)))
    }

    /// Reports the same as [`Self::is_calm`], and remembers it until something changes.
    pub(super) fn rests(&mut self, fleet: &Fleet) -> bool {
        if self.rests_at != Some(fleet.version()) {
            self.rests_at = self.is_calm(fleet).then_some(fleet.version());
        }
        self.rests_at.is_some()
    }

    /// Reports whether old copies wait, or new ones for room.
    pub(super) fn is_migrating(&self) -> bool {
        self.migrating.is_some()
    }

    /// Returns the replicas that the scheduler decided, by cluster.
    pub(super) fn targets(&self) -> BTreeMap<usize, i64> {
        let targets = self.binding.body.spec.clusters.iter();
        targets
            .map(|target| (number(&target.name), i64::from(target.replicas)))
            .collect()
    }

    /// Reports whether the scheduler has placed everything.
    pub(super) fn is_completely_placed(&self) -> bool {
        let targets = self.targets();
        match self.shape.copies {
            Some(copies) => {
                let mut replicas = targets.values();
                targets.len() == copies && replicas.all(|replicas| *replicas == self.shape.replicas)
            }
            None => targets.values().sum::<i64>() == self.shape.replicas,
        }
    }

    /// Changes the number of replicas. The scheduler decides about it later.
    pub(in crate::failover) fn scale(&mut self, replicas: i64) {
        self.shape.replicas = replicas;
        self.patch(&json!({}));
    }

    /// Drops what the controllers remember of the workload.
    pub(super) fn forget(&mut self) {
        self.binding.reported.clear();
        self.written_at = None;
        for copy in self.copies.values_mut() {
            copy.forget();
        }
    }

    /// Applies the merge patch of a controller to the binding. The scheduler has not observed the change yet.
    pub(super) fn patch(&mut self, patch: &Value) {
        self.is_scheduled = false;
        self.write(patch);
    }

    /// Changes the binding without a change that the scheduler has to observe.
    pub(super) fn write(&mut self, patch: &Value) {
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
        let shape = &self.shape;
        let placement = match shape.copies {
            None => json!({ "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Aggregated" } }),
            Some(copies) => json!({ "spreadConstraints": [{ "spreadByField": "cluster",
                "minGroups": copies, "maxGroups": copies }] }),
        };
        let failover = shape.unhealthy_for.map(|seconds| {
            json!({ "application": { "decisionConditions": { "tolerationSeconds": seconds } } })
        });
        let spec = json!({ "clusters": clusters, "gracefulEvictionTasks": tasks, "replicas": shape.replicas,
            "placement": placement, "failover": failover, "propagateDeps": true });
        let items = self.copies.iter().filter_map(|(cluster, copy)| {
            let report = copy.report?;
            Some(
                json!({ "clusterName": name(*cluster), "health": health(report),
                "status": { "replicas": report.replicas, "readyReplicas": report.ready } }),
            )
        });
        let items: Vec<Value> = items.collect();
        let mut binding = binding_with(&spec, &json!({ "aggregatedStatus": items }));
        binding.placement = Some(Placement::default());
        binding.evicted_from = evicted_from;
        binding.reported = std::mem::take(&mut self.binding.reported);
        self.binding = binding;
        (self.written_at, self.rests_at) = (None, None);
        self.show_status();
    }

    /// Writes the status that the scheduler and the binding controller show.
    pub(super) fn show_status(&mut self) {
        let generation = self.binding.body.metadata.generation;
        let status = &mut self.binding.body.status;
        status.scheduler_observed_generation = generation.filter(|_| self.is_scheduled);
        status.last_scheduled_time = self.scheduled_at.map(Time);
        status.conditions = self.migrating.iter().cloned().collect();
    }

    /// Lets the members that are connected apply their Works. Returns the number of new pods.
    pub(super) fn apply(&mut self, fleet: &Fleet, second: i64) -> i64 {
        let mut created = 0;
        for (cluster, copy) in &mut self.copies {
            if fleet.applies(*cluster, second) {
                created += copy.apply();
            }
            if fleet.pulls_images(*cluster) && fleet.runs_since(*cluster).is_some() {
                copy.pull(second);
            }
        }
        let count = self.copies.len();
        self.copies.retain(|_, copy| !copy.is_gone());
        if self.copies.len() < count {
            self.written_at = None;
        }
        created
    }

    /// Lets the members that are connected report their pods.
    pub(super) fn report(&mut self, fleet: &Fleet, second: i64, now: Instant) {
        let mut has_changed = false;
        for (cluster, copy) in &mut self.copies {
            if fleet.reports(*cluster, second) {
                let ready = copy.ready(fleet.runs_since(*cluster), self.shape.start_delay, second);
                has_changed |= copy.report(ready, second);
            }
        }
        let reporting = self.copies.values().filter(|copy| copy.report.is_some());
        let known = &self.binding.body.status.aggregated_status;
        if has_changed || known.len() != reporting.count() {
            let earlier = self.binding.clone();
            self.write(&json!({}));
            self.binding.record_changed_reports(Some(&earlier), now);
        }
    }

    /// Returns the cluster in which the workload is preferably placed.
    pub(in crate::failover) fn home(&self) -> usize {
        self.home
    }

    /// Reports whether all replicas are in a cluster.
    pub(in crate::failover) fn is_in(&self, cluster: usize) -> bool {
        let copy = self.copies.get(&cluster);
        copy.is_some_and(|copy| copy.granted() == self.shape.replicas)
    }

    /// Returns the pods that are really ready.
    pub(super) fn ready(&self, fleet: &Fleet, second: i64) -> i64 {
        let copies = self.copies.iter();
        copies
            .map(|(cluster, copy)| {
                copy.ready(fleet.runs_since(*cluster), self.shape.start_delay, second)
            })
            .sum()
    }

    /// Describes the workload for the message of a failed test.
    pub(in crate::failover) fn about(&self) -> String {
        let spec = &self.binding.body.spec;
        let tasks: Vec<_> = spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| &task.from_cluster)
            .collect();
        let migrating = self.migrating.as_ref().map(|migrating| &migrating.message);
        let copies: Vec<String> = self
            .copies
            .iter()
            .map(|(cluster, copy)| copy.about(*cluster))
            .collect();
        format!(
            "{:?}, targets {:?}, tasks {tasks:?}, evicted from {:?}, {migrating:?}, {}",
            self.shape,
            self.targets(),
            self.binding.evicted_from,
            copies.join(", ")
        )
    }

    /// Reports whether fewer replicas are ready than wanted.
    pub(super) fn is_incomplete(&self, fleet: &Fleet, second: i64) -> bool {
        self.ready(fleet, second) < self.shape.replicas
    }
}
