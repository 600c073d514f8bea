//! The copies of a workload: one row for each cluster, with the replicas that are wanted and ready there.

use std::collections::BTreeMap;

use berth_api::binding::{AggregatedStatusItem, ResourceHealth};
use berth_api::well_known::CONDITION_READY;
use berth_api::{Binding, Cluster, condition};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The state of a member cluster, as far as it tells whether its reports are current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// The cluster is ready.
    Ready,
    /// The cluster is not ready: nothing is known about its objects since then.
    NotReady {
        /// The time of the last change of the condition Ready.
        since: Option<Timestamp>,
    },
    /// There is no such cluster.
    Missing,
}

impl ClusterState {
    /// Returns the state of a cluster. A cluster that has not reported yet is not ready.
    pub fn of(cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster else {
            return Self::Missing;
        };
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
        let ready = condition::find(conditions.unwrap_or_default(), CONDITION_READY);
        match ready {
            Some(ready) if ready.status == "True" => Self::Ready,
            ready => Self::NotReady {
                since: ready.map(|ready| ready.last_transition_time.0),
            },
        }
    }
}

/// The state of the copy in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CopyState {
    /// The copy works, or is applied and has no health.
    Well,
    /// A part of the replicas is ready.
    Partly,
    /// The copy is applied and does not work.
    Down,
    /// The application failed.
    NotApplied,
    /// The copy is not applied yet.
    Pending,
    /// The cluster is not ready, so that its last report is outdated.
    Stale,
    /// The cluster does not exist.
    ClusterMissing,
}

impl CopyState {
    /// Returns the state in one or two words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Partly => "partly ready",
            Self::Down => "not ready",
            Self::NotApplied => "not applied",
            Self::Pending => "pending",
            Self::Stale => "unknown",
            Self::ClusterMissing => "cluster missing",
        }
    }

    /// Reports whether the copy works, as far as is known.
    pub const fn works(self) -> bool {
        matches!(self, Self::Well | Self::Partly)
    }
}

/// The copy of a workload in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyRow {
    /// The name of the cluster.
    pub cluster: String,
    /// The replicas that the cluster is to have. Absent for resources without replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<i64>,
    /// The ready replicas that the cluster last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    /// The state.
    pub state: CopyState,
    /// True if the cluster is not a target: its copy leaves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// The member's message about a failed application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The time since which the cluster is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<Timestamp>,
}

impl CopyRow {
    /// Returns the copies of a binding, sorted by cluster.
    pub fn of(binding: &Binding, clusters: impl Fn(&str) -> ClusterState) -> Vec<Self> {
        let spec = &binding.spec;
        let mut wanted: BTreeMap<&str, Option<i64>> = BTreeMap::new();
        let targets = spec.targets();
        for target in &targets {
            // A Job reports pods that have ended, not replicas that are ready.
            let replicas = spec.is_workload() && spec.replicas > 0 && spec.resource.kind != "Job";
            wanted.insert(
                target.name.as_str(),
                replicas.then(|| i64::from(target.replicas)),
            );
        }
        let items = &binding.status.aggregated_status;
        let reports: BTreeMap<&str, &AggregatedStatusItem> = items
            .iter()
            .map(|item| (item.cluster_name.as_str(), item))
            .collect();
        let mut names: Vec<&str> = wanted.keys().chain(reports.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        let rows = names.into_iter().map(|name| {
            let report = reports.get(name).copied();
            let target = match wanted.get(name) {
                Some(replicas) => Target::Wanted(*replicas),
                None => Target::Leaving,
            };
            Self::in_cluster(name, target, report, clusters(name))
        });
        rows.collect()
    }

    fn in_cluster(
        name: &str,
        target: Target,
        report: Option<&AggregatedStatusItem>,
        cluster: ClusterState,
    ) -> Self {
        let status = report.and_then(|report| report.status.as_ref());
        let counts = status.and_then(Counts::of);
        let wanted = target.replicas().or_else(|| counts?.wanted);
        let ready = counts.map(|counts| counts.ready);
        let message = report.and_then(|report| report.applied_message.clone());
        let message = message.filter(|text| !text.is_empty());
        let (is_stale, stale_since) = match cluster {
            ClusterState::NotReady { since } => (true, since),
            ClusterState::Ready | ClusterState::Missing => (false, None),
        };
        let state = if cluster == ClusterState::Missing {
            CopyState::ClusterMissing
        } else if is_stale {
            CopyState::Stale
        } else {
            state_of(report, wanted, ready)
        };
        Self {
            cluster: name.to_owned(),
            wanted,
            ready,
            state,
            leaving: target == Target::Leaving,
            message,
            stale_since,
        }
    }

    /// Returns the ready replicas as far as is known: those in a cluster that is not ready do not count.
    pub fn known_ready(&self) -> i64 {
        if self.is_unknown() {
            return 0;
        }
        self.ready.unwrap_or(0)
    }

    /// Reports whether the last report of the cluster is outdated.
    fn is_unknown(&self) -> bool {
        matches!(self.state, CopyState::Stale | CopyState::ClusterMissing)
    }

    /// Returns the replicas as `READY/WANTED`, with a question mark for what is not known.
    pub fn replicas(&self) -> String {
        let Some(wanted) = self.wanted else {
            return "-".to_owned();
        };
        match self.ready {
            Some(ready) if !self.is_unknown() => format!("{ready}/{wanted}"),
            _ => format!("?/{wanted}"),
        }
    }
}

/// The role of a cluster for a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The cluster is a target, with this number of replicas.
    Wanted(Option<i64>),
    /// The cluster is no target.
    Leaving,
}

impl Target {
    fn replicas(self) -> Option<i64> {
        match self {
            Self::Wanted(replicas) => replicas,
            Self::Leaving => None,
        }
    }
}

fn state_of(
    report: Option<&AggregatedStatusItem>,
    wanted: Option<i64>,
    ready: Option<i64>,
) -> CopyState {
    let Some(report) = report else {
        return CopyState::Pending;
    };
    if report.applied != Some(true) {
        let failed = report
            .applied_message
            .as_deref()
            .is_some_and(|text| !text.is_empty());
        return if failed {
            CopyState::NotApplied
        } else {
            CopyState::Pending
        };
    }
    match (report.health.as_ref(), wanted, ready) {
        (Some(ResourceHealth::Unhealthy), _, Some(ready)) if ready > 0 => CopyState::Partly,
        (Some(ResourceHealth::Unhealthy), ..) => CopyState::Down,
        // A health rule may not count replicas.
        (_, Some(wanted), Some(0)) if wanted > 0 => CopyState::Down,
        (_, Some(wanted), Some(ready)) if ready < wanted => CopyState::Partly,
        _ => CopyState::Well,
    }
}

/// Removes from the status of a copy the fields that no diagnosis reads.
pub(crate) fn trim_status(status: &mut Value) {
    if let Value::Object(fields) = status {
        fields.retain(|name, _| Counts::FIELDS.contains(&name.as_str()));
    }
}

/// The numbers in the status of a workload in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    ready: i64,
    /// The wanted number, for kinds that derive it in the member, such as DaemonSets.
    wanted: Option<i64>,
}

impl Counts {
    /// The fields of a status that [`Self::of`] reads.
    const FIELDS: [&str; 4] = [
        "replicas",
        "readyReplicas",
        "desiredNumberScheduled",
        "numberReady",
    ];

    /// Reads the status of a Deployment, `StatefulSet`, `ReplicaSet`, `DaemonSet`, or of a kind with the same fields. Returns
    /// `None` if the status has no numbers.
    fn of(status: &Value) -> Option<Self> {
        let number = |field: &str| status.get(field).and_then(Value::as_i64);
        if let Some(wanted) = number("desiredNumberScheduled") {
            return Some(Self {
                ready: number("numberReady").unwrap_or(0),
                wanted: Some(wanted),
            });
        }
        let ready = number("readyReplicas");
        let has_replicas = number("replicas").is_some() || ready.is_some();
        has_replicas.then(|| Self {
            ready: ready.unwrap_or(0),
            wanted: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::of_binding::tests::binding;

    #[test]
    fn a_copy_has_the_state_that_its_cluster_reports() {
        use CopyState::{ClusterMissing, Down, NotApplied, Partly, Pending, Stale, Well};
        let item = |applied: bool, message: &str, health: &str, ready: i64| {
            json!([{ "clusterName": "m1", "applied": applied, "appliedMessage": message, "health": health,
                "status": { "replicas": 2, "readyReplicas": ready } }])
        };
        let stale = || ClusterState::NotReady { since: None };
        for (about, report, cluster, state, replicas) in [
            ("no report", json!([]), ClusterState::Ready, Pending, "?/2"),
            (
                "well",
                item(true, "", "Healthy", 2),
                ClusterState::Ready,
                Well,
                "2/2",
            ),
            (
                "partly",
                item(true, "", "Unhealthy", 1),
                ClusterState::Ready,
                Partly,
                "1/2",
            ),
            (
                "down",
                item(true, "", "Unhealthy", 0),
                ClusterState::Ready,
                Down,
                "0/2",
            ),
            (
                "no health rule",
                item(true, "", "Unknown", 0),
                ClusterState::Ready,
                Down,
                "0/2",
            ),
            (
                "refused",
                item(false, "no", "Unknown", 0),
                ClusterState::Ready,
                NotApplied,
                "0/2",
            ),
            (
                "not applied",
                item(false, "", "Unknown", 0),
                ClusterState::Ready,
                Pending,
                "0/2",
            ),
            ("lost", item(true, "", "Healthy", 2), stale(), Stale, "?/2"),
            (
                "gone",
                item(true, "", "Healthy", 2),
                ClusterState::Missing,
                ClusterMissing,
                "?/2",
            ),
        ] {
            let binding = binding(json!([{ "name": "m1", "replicas": 2 }]), report);
            let rows = CopyRow::of(&binding, |_| cluster.clone());
            let [row] = &rows[..] else { panic!("{about}") };
            assert_eq!((row.state, &*row.replicas()), (state, replicas), "{about}");
        }
    }

    #[test]
    fn a_cluster_that_is_no_target_leaves() {
        let items = json!([{ "clusterName": "m1", "applied": true, "health": "Healthy" }]);
        let binding = binding(json!([{ "name": "m2", "replicas": 2 }]), items);
        let rows = CopyRow::of(&binding, |_| ClusterState::Ready);
        let leaving: Vec<_> = rows
            .iter()
            .map(|row| (&*row.cluster, row.leaving))
            .collect();
        assert_eq!(leaving, [("m1", true), ("m2", false)]);
    }

    #[test]
    fn the_wanted_number_of_a_daemon_set_comes_from_the_member() {
        let status = json!({ "desiredNumberScheduled": 3, "numberReady": 1 });
        let counts = Counts::of(&status);
        assert_eq!(
            counts,
            Some(Counts {
                ready: 1,
                wanted: Some(3)
            })
        );
        assert_eq!(Counts::of(&json!({ "loadBalancer": {} })), None);
    }
}
