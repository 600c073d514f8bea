//! The simulated fleet: Cluster manifests, which are generated or read from a fleet file.
//!
//! The status in a manifest describes the nodes, the resources and the APIs of the simulated member.
//! `examples/fleet.yaml` contains the fleet that `berth up` generates without flags.

mod file;

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::{
    ApiEnablement, ApiResource, ClusterSpec, ClusterStatus, NodeSummary, ResourceSummary, SyncMode,
};
use berth_api::quantity::QuantityText;

pub use file::{FleetError, read};

const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];
const PROVIDERS: [&str; 3] = ["aws", "gcp", "azure"];
const TIERS: [&str; 2] = ["prod", "staging"];

/// API groups of every generated member, with their kinds.
const APIS: &[(&str, &[(&str, &str)])] = &[
    (
        "v1",
        &[
            ("configmaps", "ConfigMap"),
            ("namespaces", "Namespace"),
            ("persistentvolumeclaims", "PersistentVolumeClaim"),
            ("pods", "Pod"),
            ("secrets", "Secret"),
            ("serviceaccounts", "ServiceAccount"),
            ("services", "Service"),
        ],
    ),
    (
        "apps/v1",
        &[
            ("daemonsets", "DaemonSet"),
            ("deployments", "Deployment"),
            ("replicasets", "ReplicaSet"),
            ("statefulsets", "StatefulSet"),
        ],
    ),
    (
        "autoscaling/v2",
        &[("horizontalpodautoscalers", "HorizontalPodAutoscaler")],
    ),
    ("batch/v1", &[("cronjobs", "CronJob"), ("jobs", "Job")]),
    (
        "networking.k8s.io/v1",
        &[
            ("ingresses", "Ingress"),
            ("networkpolicies", "NetworkPolicy"),
        ],
    ),
    (
        "policy/v1",
        &[("poddisruptionbudgets", "PodDisruptionBudget")],
    ),
    (
        "rbac.authorization.k8s.io/v1",
        &[
            ("clusterrolebindings", "ClusterRoleBinding"),
            ("clusterroles", "ClusterRole"),
            ("rolebindings", "RoleBinding"),
            ("roles", "Role"),
        ],
    ),
    (
        "apiextensions.k8s.io/v1",
        &[("customresourcedefinitions", "CustomResourceDefinition")],
    ),
];

/// API groups that only some generated members serve. The first member serves both groups, and the second member serves
/// none of them.
const EXTRA_APIS: [(&str, &str, &str); 2] = [
    ("gateway.networking.k8s.io/v1", "gateways", "Gateway"),
    (
        "monitoring.coreos.com/v1",
        "servicemonitors",
        "ServiceMonitor",
    ),
];

/// Generates the Clusters `member1` to `memberN`, which differ in region, zones, labels, capacity and APIs.
pub fn generate(members: usize) -> Vec<Cluster> {
    (0..members).map(member).collect()
}

fn member(index: usize) -> Cluster {
    let number = index + 1;
    let region = REGIONS[index % REGIONS.len()];
    // Three sizes: 4, 8 and 16 nodes of 8 cores and 32 GiB.
    let nodes = 4 << (index % 3);
    let labels: BTreeMap<String, String> = [
        ("tier".to_owned(), TIERS[index % TIERS.len()].to_owned()),
        ("location".to_owned(), region.to_owned()),
        (
            "size".to_owned(),
            ["small", "medium", "large"][index % 3].to_owned(),
        ),
    ]
    .into();
    let mut cluster = Cluster::new(
        &format!("member{number}"),
        ClusterSpec {
            sync_mode: SyncMode::Push,
            provider: Some(PROVIDERS[(index / REGIONS.len()) % PROVIDERS.len()].to_owned()),
            region: Some(region.to_owned()),
            zones: ["a", "b"]
                .iter()
                .map(|zone| format!("{region}-{number}{zone}"))
                .collect(),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.labels = Some(labels);
    cluster.status = Some(ClusterStatus {
        kubernetes_version: Some("v1.36.0".to_owned()),
        api_enablements: apis(index),
        node_summary: Some(NodeSummary {
            total_num: Some(nodes),
            ready_num: Some(nodes),
        }),
        resource_summary: Some(capacity(nodes)),
        ..ClusterStatus::default()
    });
    cluster
}

fn apis(index: usize) -> Vec<ApiEnablement> {
    let enablement = |group_version: &str, kinds: &[(&str, &str)]| ApiEnablement {
        group_version: group_version.to_owned(),
        resources: kinds
            .iter()
            .map(|(name, kind)| ApiResource {
                name: (*name).to_owned(),
                kind: (*kind).to_owned(),
            })
            .collect(),
    };
    let mut apis: Vec<ApiEnablement> = APIS
        .iter()
        .map(|(group, kinds)| enablement(group, kinds))
        .collect();
    for (position, (group, name, kind)) in EXTRA_APIS.iter().enumerate() {
        if index.is_multiple_of(position + 2) {
            apis.push(enablement(group, &[(name, kind)]));
        }
    }
    apis.sort_by(|a, b| a.group_version.cmp(&b.group_version));
    apis
}

fn capacity(nodes: i32) -> ResourceSummary {
    let list = |cpu: i32, memory_gib: i32, pods: i32| {
        [
            ("cpu".to_owned(), QuantityText(cpu.to_string())),
            ("memory".to_owned(), QuantityText(format!("{memory_gib}Gi"))),
            ("pods".to_owned(), QuantityText(pods.to_string())),
        ]
        .into()
    };
    ResourceSummary {
        allocatable: list(nodes * 8, nodes * 32, nodes * 110),
        allocated: list(nodes, nodes * 2, nodes),
        ..ResourceSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn generated_members_differ() {
        let fleet = generate(3);
        let regions: BTreeSet<_> = fleet
            .iter()
            .map(|cluster| cluster.spec.region.clone())
            .collect();
        let capacities: BTreeSet<_> = fleet
            .iter()
            .map(|cluster| format!("{:?}", cluster.status.as_ref().unwrap().resource_summary))
            .collect();
        let apis: BTreeSet<_> = fleet
            .iter()
            .map(|cluster| cluster.status.as_ref().unwrap().api_enablements.len())
            .collect();
        assert_eq!((regions.len(), capacities.len(), apis.len()), (3, 3, 3));
    }
}
