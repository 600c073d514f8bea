//! The free capacity of clusters, computed from the resource summary in the status of each Cluster.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::binding::BindingSpec;
use berth_api::cluster::ResourceUsage;
use berth_api::quantity::Quantity;
use berth_diagnosis::ClusterState;
use clap::ValueEnum;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::columns::align;

/// Number of bytes in a mebibyte.
const MEBI: i64 = 1 << 20;

/// Order of the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Highest percentage of CPU, memory or pods in use first
    Fullest,
    /// Ascending names
    Name,
    /// Highest percentage of CPU in use first
    Cpu,
    /// Highest percentage of memory in use first
    Memory,
    /// Highest percentage of pods in use first
    Pods,
}

/// The amounts of one resource in a cluster, in milli-CPUs, bytes or pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Amounts {
    allocatable: i64,
    /// Sum of the requests of scheduled and of pending pods.
    used: i64,
    free: i64,
    used_percent: f64,
}

/// The capacity of one cluster, and the number of bindings and replicas that are assigned to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterCapacity {
    name: String,
    /// False if the cluster is not ready, so that its capacity is outdated and cannot be used.
    ready: bool,
    /// `None` if the cluster does not report its CPU.
    milli_cpu: Option<Amounts>,
    memory_bytes: Option<Amounts>,
    pods: Option<Amounts>,
    bindings: usize,
    replicas: i64,
}

impl Amounts {
    fn new(usage: ResourceUsage, usability: Usability) -> Self {
        let ResourceUsage { allocatable, used } = usage;
        let used_percent = if allocatable > 0 {
            Quantity::from_integer(used).ratio(Quantity::from_integer(allocatable)) * 100.0
        } else {
            100.0
        };
        Self {
            allocatable,
            used,
            free: match usability {
                Usability::Usable => usage.free(),
                Usability::Lost => 0,
            },
            used_percent,
        }
    }
}

/// The usability of the free capacity of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usability {
    Usable,
    /// The cluster is not ready.
    Lost,
}

impl ClusterCapacity {
    fn new(cluster: &Cluster, (bindings, replicas): (usize, i64)) -> Self {
        let usability = match ClusterState::of(Some(cluster)) {
            ClusterState::Ready => Usability::Usable,
            ClusterState::NotReady { .. } | ClusterState::Missing => Usability::Lost,
        };
        let status = cluster.status.as_ref();
        let summary = status.and_then(|status| status.resource_summary.as_ref());
        let amounts = |resource, number| {
            let usage = summary?.usage(resource, number)?;
            Some(Amounts::new(usage, usability))
        };
        Self {
            name: cluster.name_any(),
            ready: usability == Usability::Usable,
            milli_cpu: amounts("cpu", Quantity::milli_value),
            memory_bytes: amounts("memory", Quantity::value),
            pods: amounts("pods", Quantity::value),
            bindings,
            replicas,
        }
    }

    /// Returns the percentage to sort by. Returns -1 for a cluster that is not ready or does not report the resource,
    /// which sorts the cluster last.
    fn percent(&self, sort_by: SortBy) -> f64 {
        if !self.ready && sort_by != SortBy::Name {
            return -1.0;
        }
        let used = |amounts: Option<Amounts>| amounts.map_or(-1.0, |amounts| amounts.used_percent);
        match sort_by {
            SortBy::Name => 0.0,
            SortBy::Cpu => used(self.milli_cpu),
            SortBy::Memory => used(self.memory_bytes),
            SortBy::Pods => used(self.pods),
            SortBy::Fullest => [self.milli_cpu, self.memory_bytes, self.pods]
                .map(used)
                .into_iter()
                .fold(-1.0, f64::max),
        }
    }
}

/// Returns the capacity of the clusters, sorted by `sort_by` and then by name.
pub(super) fn of_clusters<'a>(
    clusters: &[Cluster],
    bindings: impl Iterator<Item = &'a BindingSpec>,
    sort_by: SortBy,
) -> Vec<ClusterCapacity> {
    let mut assigned: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for target in bindings.flat_map(|spec| &spec.clusters) {
        let (bindings, replicas) = assigned.entry(&target.name).or_default();
        *bindings += 1;
        *replicas += i64::from(target.replicas);
    }
    let mut capacities: Vec<ClusterCapacity> = clusters
        .iter()
        .map(|cluster| {
            let assigned = assigned.get(cluster.name_any().as_str()).copied();
            ClusterCapacity::new(cluster, assigned.unwrap_or_default())
        })
        .collect();
    capacities.sort_by(|a, b| {
        let by_use = b.percent(sort_by).total_cmp(&a.percent(sort_by));
        by_use.then_with(|| a.name.cmp(&b.name))
    });
    capacities
}

const COLUMNS: [&str; 10] = [
    "NAME",
    "READY",
    "CPU-FREE",
    "CPU%",
    "MEMORY-FREE",
    "MEMORY%",
    "PODS-FREE",
    "PODS%",
    "BINDINGS",
    "REPLICAS",
];

/// Formats clusters as a table, with the units of `kubectl top`. A percentage is the used share of the allocatable
/// amount. The capacity of a cluster that is not ready is unknown.
pub(super) fn table(clusters: &[ClusterCapacity]) -> String {
    let rows: Vec<Vec<String>> = clusters.iter().map(row).collect();
    align(&COLUMNS, &rows)
}

fn row(cluster: &ClusterCapacity) -> Vec<String> {
    let ready = if cluster.ready { "yes" } else { "NO" };
    let mut row = vec![cluster.name.clone(), ready.to_owned()];
    let missing = || "-".to_owned();
    for (amounts, unit, suffix) in [
        (cluster.milli_cpu, 1, "m"),
        (cluster.memory_bytes, MEBI, "Mi"),
        (cluster.pods, 1, ""),
    ] {
        let amounts = amounts.filter(|_| cluster.ready);
        row.push(amounts.map_or_else(missing, |it| format!("{}{suffix}", it.free / unit)));
        row.push(amounts.map_or_else(missing, |it| format!("{:.0}%", it.used_percent)));
    }
    row.extend([cluster.bindings.to_string(), cluster.replicas.to_string()]);
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, cpu: &str, used: &str) -> Cluster {
        let ready = if name.starts_with("lost") {
            "Unknown"
        } else {
            "True"
        };
        serde_json::from_value(json!({
            "metadata": { "name": name }, "spec": { "syncMode": "Push" },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }], "resourceSummary": {
                "allocatable": { "cpu": cpu, "memory": "4Gi", "pods": "110" },
                "allocated": { "cpu": used, "memory": "1Gi", "pods": "10" },
                "allocating": { "cpu": "500m" },
            } },
        }))
        .unwrap()
    }

    fn unreported(name: &str) -> Cluster {
        serde_json::from_value(
            json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } }),
        )
        .unwrap()
    }

    fn names(clusters: &[ClusterCapacity]) -> Vec<&str> {
        clusters
            .iter()
            .map(|cluster| cluster.name.as_str())
            .collect()
    }

    #[test]
    fn requests_of_scheduled_and_pending_pods_reduce_the_free_capacity() {
        let spec: BindingSpec = serde_json::from_value(json!({
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" },
            "clusters": [{ "name": "m1", "replicas": 3 }],
        }))
        .unwrap();
        let capacities = of_clusters(
            &[
                cluster("m1", "4", "1500m"),
                unreported("m2"),
                cluster("lost", "4", "1500m"),
            ],
            [&spec, &spec].into_iter(),
            SortBy::Fullest,
        );
        assert_eq!(
            capacities.iter().map(row).collect::<Vec<_>>(),
            [
                [
                    "m1", "yes", "2000m", "50%", "3072Mi", "25%", "100", "9%", "2", "6"
                ],
                ["lost", "NO", "-", "-", "-", "-", "-", "-", "0", "0"],
                ["m2", "NO", "-", "-", "-", "-", "-", "-", "0", "0"],
            ]
        );
        let lost = &capacities[1];
        assert_eq!(
            lost.milli_cpu.map(|cpu| (cpu.allocatable, cpu.free)),
            Some((4000, 0))
        );
    }

    #[test]
    fn the_fullest_cluster_is_first_and_a_cluster_without_a_summary_is_last() {
        let clusters = [
            unreported("a"),
            cluster("lost", "1", "1"),
            cluster("b", "10", "1"),
            cluster("d", "2", "3"),
            cluster("c", "10", "1"),
        ];
        let sorted = |by| names(&of_clusters(&clusters, std::iter::empty(), by)).join(" ");
        assert_eq!(sorted(SortBy::Fullest), "d b c a lost");
        assert_eq!(sorted(SortBy::Name), "a b c d lost");
        // The pods of cluster d request more CPU than is allocatable.
        let full = &of_clusters(&clusters, std::iter::empty(), SortBy::Cpu)[0];
        assert_eq!(full.milli_cpu.map(|cpu| cpu.free), Some(0));
    }
}
