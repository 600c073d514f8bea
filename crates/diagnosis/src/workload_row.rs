//! The row of a workload in lists: one type for the terminal and the pages, so that all show the same words and numbers.

use std::collections::BTreeMap;

use berth_api::{Binding, BindingKey};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::copies::ClusterState;
use crate::finding::{Reason, Station};
use crate::health::Health;
use crate::of_binding::{later_changes, of_binding};

/// The replicas of a workload in all of its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaCount {
    /// The ready replicas.
    pub ready: i64,
    /// The wanted replicas.
    pub wanted: i64,
}

/// The numbers of clusters of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterCount {
    /// The clusters in which the workload works.
    pub working: usize,
    /// All clusters of the workload.
    pub all: usize,
}

/// A change of health by the passage of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// The time of the change.
    pub at: Timestamp,
    /// The health from then on.
    pub health: Health,
}

/// The row of a workload in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    /// The namespace. Empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// True if no policy propagates the resource, but workloads that need it do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dependency: bool,
    /// The health at the time of the diagnosis.
    pub health: Health,
    /// The time at which replicas that start count as a problem, and the health from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<Later>,
    /// The cause in one word. Absent if the workload is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The station at which the workload is held up. Absent if the workload is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station: Option<Station>,
    /// The cause in one sentence, or how much of the workload works.
    pub verdict: String,
    /// The next action. Absent if none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The time since which it is so, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The ready and the wanted replicas. Absent for resources without replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicaCount>,
    /// The clusters of the workload.
    pub clusters: ClusterCount,
}

/// Returns the ready and the wanted replicas of a workload without copies. A workload that is duplicated wants as many in
/// each cluster.
fn not_placed(binding: &Binding) -> Option<(i64, i64)> {
    let replicas = i64::from(binding.spec.replicas);
    let is_waiting = binding.spec.placement.is_some() && binding.spec.targets().is_empty();
    (is_waiting && replicas > 0).then_some((0, replicas))
}

impl WorkloadRow {
    /// Diagnoses a binding, and returns the row of its workload.
    pub fn of(binding: &Binding, clusters: &dyn Fn(&str) -> ClusterState, now: Timestamp) -> Self {
        let found = of_binding(binding, clusters, now);
        let times = match found.health {
            Health::Well => Vec::new(),
            _ => later_changes(binding, now),
        };
        let later = times.into_iter().find_map(|at| {
            let then = of_binding(binding, clusters, at + SignedDuration::from_secs(1));
            let health = then.health;
            (health != found.health).then_some(Later { at, health })
        });
        let resource = &binding.spec.resource;
        let staying = found.copies.iter().filter(|copy| !copy.leaving);
        let working = staying.clone().filter(|copy| copy.state.works()).count();
        Self {
            namespace: resource.namespace.clone().unwrap_or_default(),
            kind: resource.kind.clone(),
            name: resource.name.clone(),
            dependency: binding.spec.placement.is_none(),
            health: found.health,
            later,
            reason: found.reason,
            station: found.findings.first().map(|of| of.station),
            replicas: found
                .replicas()
                .or_else(|| not_placed(binding))
                .map(|(ready, wanted)| ReplicaCount { ready, wanted }),
            clusters: ClusterCount {
                working,
                all: staying.count(),
            },
            verdict: found.verdict,
            fix: found.fix,
            since: found.since,
        }
    }

    /// Returns the name in lists, such as `shop/Deployment web`, or `ClusterRole reader` for a cluster-scoped resource.
    pub fn workload(&self) -> String {
        let marked = if self.dependency { " (dependency)" } else { "" };
        let (kind, name) = (&self.kind, &self.name);
        match self.namespace.as_str() {
            "" => format!("{kind} {name}{marked}"),
            namespace => format!("{namespace}/{kind} {name}{marked}"),
        }
    }

    /// Returns the health at a time after the diagnosis.
    pub fn health_at(&self, now: Timestamp) -> Health {
        match self.later {
            Some(Later { at, health }) if now >= at => health,
            _ => self.health,
        }
    }

    /// Returns the replicas as `READY/WANTED`, or `-` for a resource without replicas.
    pub fn ready(&self) -> String {
        self.replicas.map_or_else(
            || "-".to_owned(),
            |ReplicaCount { ready, wanted }| format!("{ready}/{wanted}"),
        )
    }

    /// Returns the order of a list: the worst first, and the longest first among equals.
    pub fn order(&self, now: Timestamp) -> impl Ord + use<> {
        (
            self.rank(now),
            self.namespace.clone(),
            self.name.clone(),
            self.kind.clone(),
        )
    }

    /// Returns the order of a list whose rows are sorted by name already.
    pub fn rank(&self, now: Timestamp) -> impl Ord + Copy + use<> {
        let health = self.health_at(now);
        let since = match health {
            Health::Well => None,
            _ => self.since,
        };
        (std::cmp::Reverse(health), since.unwrap_or(Timestamp::MAX))
    }
}

/// The numbers of workloads by health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCounts {
    /// Workloads that are well.
    pub well: usize,
    /// Workloads that wait.
    pub waiting: usize,
    /// Workloads of which a part works.
    pub degraded: usize,
    /// Workloads with a step that cannot be done.
    pub stuck: usize,
    /// Workloads of which nothing works.
    pub broken: usize,
}

impl HealthCounts {
    /// Counts a workload.
    pub fn add(&mut self, health: Health) {
        *self.of_mut(health) += 1;
    }

    /// Returns the number of workloads with this health.
    pub const fn of(&self, health: Health) -> usize {
        match health {
            Health::Well => self.well,
            Health::Waiting => self.waiting,
            Health::Degraded => self.degraded,
            Health::Stuck => self.stuck,
            Health::Broken => self.broken,
        }
    }

    fn of_mut(&mut self, health: Health) -> &mut usize {
        match health {
            Health::Well => &mut self.well,
            Health::Waiting => &mut self.waiting,
            Health::Degraded => &mut self.degraded,
            Health::Stuck => &mut self.stuck,
            Health::Broken => &mut self.broken,
        }
    }
}

/// Formats the numbers, the worst first, without those that are 0: `2 broken, 1 stuck, 40 well`.
impl std::fmt::Display for HealthCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = Health::WORST_FIRST.map(|health| (self.of(health), health));
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<String> = shown
            .map(|(count, health)| format!("{count} {health}"))
            .collect();
        if shown.is_empty() {
            return f.write_str("no workloads");
        }
        f.write_str(&shown.join(", "))
    }
}

/// The states of the clusters by name.
pub type ClusterStates = BTreeMap<String, ClusterState>;

/// Returns the rows of these bindings, in the order of a list, and their numbers by health. Bindings of dependencies are
/// rows as well.
pub fn workload_rows<'a>(
    bindings: impl Iterator<Item = &'a Binding>,
    clusters: &ClusterStates,
    now: Timestamp,
) -> (Vec<(BindingKey, WorkloadRow)>, HealthCounts) {
    let state = |name: &str| clusters.get(name).cloned().unwrap_or(ClusterState::Missing);
    let mut counts = HealthCounts::default();
    let mut rows: Vec<(BindingKey, WorkloadRow)> = bindings
        .map(|binding| (binding.key.clone(), WorkloadRow::of(binding, &state, now)))
        .collect();
    rows.sort_by_cached_key(|(_, row)| row.order(now));
    for (_, row) in &rows {
        counts.add(row.health);
    }
    (rows, counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::of_binding::tests::binding;

    #[test]
    fn a_binding_without_a_placement_is_a_dependency() {
        let mut binding = binding(json!([]), json!([]));
        binding.spec.placement = None;
        let row = WorkloadRow::of(&binding, &|_| ClusterState::Ready, Timestamp::MAX);
        assert_eq!(row.workload(), "shop/Deployment web (dependency)");
        binding.spec.resource.namespace = None;
        let row = WorkloadRow::of(&binding, &|_| ClusterState::Ready, Timestamp::MAX);
        assert_eq!(row.workload(), "Deployment web (dependency)");
    }

    #[test]
    fn rows_are_sorted_by_health_and_counted() {
        let of = |name: &str, ready: i64| {
            let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
            let items = json!([{ "clusterName": "m1", "applied": true, "health": health,
                "status": { "replicas": 2, "readyReplicas": ready } }]);
            let mut binding = binding(json!([{ "name": "m1", "replicas": 2 }]), items);
            name.clone_into(&mut binding.spec.resource.name);
            binding
        };
        let bindings = [of("a", 2), of("b", 0), of("c", 1)];
        let clusters = ClusterStates::from([("m1".to_owned(), ClusterState::Ready)]);
        let now = "2026-05-01T12:00:00Z".parse().unwrap();
        let (rows, counts) = workload_rows(bindings.iter(), &clusters, now);
        let shown: Vec<String> = rows
            .iter()
            .map(|(_, row)| format!("{} {} {}", row.name, row.health, row.ready()))
            .collect();
        assert_eq!(shown, ["b broken 0/2", "c degraded 1/2", "a well 2/2"]);
        assert_eq!(rows[0].1.workload(), "shop/Deployment b");
        assert_eq!(counts.to_string(), "1 broken, 1 degraded, 1 well");
        // Soon after the placement, replicas may start. The row says when this ends.
        let now = "2026-05-01T10:00:10Z".parse().unwrap();
        let (rows, counts) = workload_rows(bindings.iter(), &clusters, now);
        assert_eq!(counts.to_string(), "2 waiting, 1 well");
        let later: Timestamp = "2026-05-01T10:02:00Z".parse().unwrap();
        let row = &rows.iter().find(|(_, row)| row.name == "b").unwrap().1;
        let expected = Later {
            at: later,
            health: Health::Broken,
        };
        assert_eq!(row.later, Some(expected));
        assert_eq!(
            (row.health_at(now), row.health_at(later)),
            (Health::Waiting, Health::Broken)
        );
    }
}
