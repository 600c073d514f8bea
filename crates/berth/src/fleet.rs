//! The simulated fleet: Cluster manifests, from a file or made up.
//!
//! A fleet file holds ordinary Cluster manifests with their status, so that what it says is what the
//! scheduler sees. `examples/fleet.yaml` is the fleet of a plain `berth up`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use berth_api::Cluster;
use berth_api::cluster::{
    ApiEnablement, ApiResource, ClusterSpec, ClusterStatus, NodeSummary, ResourceSummary, SyncMode,
};
use berth_api::quantity::QuantityText;
use serde_json::Value;

/// A fleet file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It cannot be read.
    #[error("cannot read the fleet file {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A document is no Cluster manifest.
    #[error("fleet file {path}, document {document}: {reason}", path = .path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The document, counted from 1.
        document: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Reads a fleet file.
///
/// # Errors
/// When the file cannot be read, or a document in it is no Cluster or repeats a name.
pub fn read(path: &Path) -> Result<Vec<Cluster>, FleetError> {
    let text = std::fs::read_to_string(path).map_err(|source| FleetError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|(document, reason)| FleetError::Document {
        path: path.to_owned(),
        document,
        reason,
    })
}

fn parse(text: &str) -> Result<Vec<Cluster>, (usize, String)> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| (1, one_line(&error.to_string())))?;
    let mut names = BTreeSet::new();
    let mut fleet = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let number = index + 1;
        if document.is_null() {
            continue;
        }
        if document["kind"] != "Cluster" || document["apiVersion"] != "cluster.karmada.io/v1alpha1"
        {
            return Err((
                number,
                format!(
                    "is a {} {}, not a cluster.karmada.io/v1alpha1 Cluster",
                    document["apiVersion"], document["kind"]
                ),
            ));
        }
        let cluster: Cluster = serde_json::from_value(document.clone())
            .map_err(|error| (number, error.to_string()))?;
        let understood =
            serde_json::to_value(&cluster).map_err(|error| (number, error.to_string()))?;
        if let Some(field) = unknown_field(&document, &understood) {
            return Err((number, format!("unknown field {field:?}")));
        }
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if name.is_empty() {
            return Err((number, "metadata.name is missing".to_owned()));
        }
        if !names.insert(name.clone()) {
            return Err((number, format!("the name {name:?} is there twice")));
        }
        fleet.push(cluster);
    }
    Ok(fleet)
}

/// The path of the first field that is written but not understood. Empty values need not come back.
fn unknown_field(written: &Value, understood: &Value) -> Option<String> {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => {
            written
                .iter()
                .find_map(|(key, value)| match understood.get(key) {
                    Some(known) => unknown_field(value, known).map(|rest| format!("{key}.{rest}")),
                    None if is_empty(value) => None,
                    None => Some(key.clone()),
                })
        }
        (Value::Array(written), Value::Array(understood)) => written
            .iter()
            .zip(understood)
            .find_map(|(value, known)| unknown_field(value, known)),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];
const PROVIDERS: [&str; 3] = ["aws", "gcp", "azure"];
const TIERS: [&str; 2] = ["prod", "staging"];

/// Groups that every made-up member serves, and the kinds in them.
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

/// Groups that only some made-up members serve: the first member has both, the next one neither.
const EXTRA_APIS: [(&str, &str, &str); 2] = [
    ("gateway.networking.k8s.io/v1", "gateways", "Gateway"),
    (
        "monitoring.coreos.com/v1",
        "servicemonitors",
        "ServiceMonitor",
    ),
];

/// `member1` to `memberN`: each with its own region, zones, labels, capacity and APIs.
pub fn made_up(members: usize) -> Vec<Cluster> {
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
    for (place, (group, name, kind)) in EXTRA_APIS.iter().enumerate() {
        if index.is_multiple_of(place + 2) {
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
    use super::*;

    #[test]
    fn the_example_is_the_fleet_of_a_plain_up() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet.yaml");
        assert_eq!(read(&path).unwrap(), made_up(3));
    }

    #[test]
    fn members_differ() {
        let fleet = made_up(3);
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

    #[test]
    fn a_bad_document_is_named() {
        let good = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m}\nspec: {syncMode: Push}\n";
        let cases = [
            (
                "kind: Pod\napiVersion: v1\n".to_owned(),
                1,
                "not a cluster.karmada.io/v1alpha1 Cluster",
            ),
            (format!("{good}---\n{good}"), 2, "twice"),
            (
                format!("{good}---\n{}", good.replace("metadata: {name: m}\n", "")),
                2,
                "metadata.name",
            ),
            (
                format!("{good}---\n{}", good.replace("syncMode: Push", "")),
                2,
                "syncMode",
            ),
            (
                good.replace("syncMode: Push", "syncMode: Push, regoin: eu"),
                1,
                "spec.regoin",
            ),
        ];
        for (text, document, reason) in cases {
            let (at, message) = parse(&text).unwrap_err();
            assert!(
                at == document && message.contains(reason),
                "{at}: {message}\n{text}"
            );
        }
    }
}
