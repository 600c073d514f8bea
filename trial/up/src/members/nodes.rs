//! Nodes of a simulated member. The status in the member's Cluster manifest contains the number of nodes and the total
//! capacity.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::quantity::{Quantity, QuantityError};
use berth_apimachinery::timestamp;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// An invalid quantity in the `resourceSummary` of a Cluster manifest.
#[derive(Debug, thiserror::Error)]
#[error("status.resourceSummary.{list}.{resource}: {source}")]
pub(super) struct InvalidQuantity {
    list: &'static str,
    resource: String,
    source: QuantityError,
}

impl InvalidQuantity {
    pub(super) fn new(list: &'static str, resource: &str, source: QuantityError) -> Self {
        Self {
            list,
            resource: resource.to_owned(),
            source,
        }
    }
}

/// Returns the unit in which a resource is divided: one millicore for CPU, and 1 for every other resource.
pub(super) fn step(resource: &str) -> Quantity {
    match resource {
        "cpu" => Quantity::from_milli(1),
        _ => Quantity::from_integer(1),
    }
}

/// Returns the nodes of a cluster. The capacity of the cluster is divided equally among the nodes. A manifest that has
/// a capacity and no number of nodes describes one node.
pub(super) fn of(cluster: &Cluster) -> Result<Vec<Node>, InvalidQuantity> {
    let status = cluster.status.clone().unwrap_or_default();
    let allocatable = status.resource_summary.unwrap_or_default().allocatable;
    let summary = status.node_summary.unwrap_or_default();
    let number = summary
        .total_num
        .unwrap_or_else(|| i32::from(!allocatable.is_empty()));
    let number = u32::try_from(number).unwrap_or_default();
    let ready = summary
        .ready_num
        .map_or(number, |ready| u32::try_from(ready).unwrap_or_default());
    let mut resources: Vec<BTreeMap<String, ApiQuantity>> = Vec::new();
    resources.resize_with(number as usize, BTreeMap::new);
    for (resource, text) in &allocatable {
        let total = text
            .parse()
            .map_err(|source| InvalidQuantity::new("allocatable", resource, source))?;
        let shares = total.split(number, step(resource));
        for (node, share) in resources.iter_mut().zip(shares) {
            node.insert(resource.clone(), ApiQuantity(share.to_string()));
        }
    }
    let version = status.kubernetes_version.unwrap_or_default();
    let nodes = resources.into_iter().zip(0_u32..);
    Ok(nodes
        .map(|(resources, index)| node(cluster, index, resources, index < ready, &version))
        .collect())
}

fn node(
    cluster: &Cluster,
    index: u32,
    resources: BTreeMap<String, ApiQuantity>,
    ready: bool,
    version: &str,
) -> Node {
    let member = cluster.metadata.name.as_deref().unwrap_or_default();
    let name = format!("{member}-node-{}", index + 1);
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let zones = &cluster.spec.zones;
    let zone = zones.iter().cycle().nth(index as usize);
    for (key, value) in [
        (
            "topology.kubernetes.io/region",
            cluster.spec.region.as_ref(),
        ),
        ("topology.kubernetes.io/zone", zone),
    ] {
        labels.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus {
            addresses: Some(vec![
                NodeAddress {
                    type_: "InternalIP".to_owned(),
                    address: address(index),
                },
                NodeAddress {
                    type_: "Hostname".to_owned(),
                    address: name,
                },
            ]),
            allocatable: Some(resources.clone()),
            capacity: Some(resources),
            conditions: Some(vec![condition(ready)]),
            node_info: Some(NodeSystemInfo {
                architecture: "amd64".to_owned(),
                operating_system: "linux".to_owned(),
                os_image: "simulated".to_owned(),
                kernel_version: "simulated".to_owned(),
                container_runtime_version: "simulated://".to_owned(),
                kubelet_version: version.to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
    }
}

/// Returns the address of a node. Clusters have separate networks, so all members use the same range. No process
/// listens at the address.
fn address(index: u32) -> String {
    let first = u32::from(std::net::Ipv4Addr::new(172, 18, 0, 2));
    std::net::Ipv4Addr::from(first + index).to_string()
}

fn condition(ready: bool) -> NodeCondition {
    let now = Time(timestamp::now());
    let (status, reason, message) = if ready {
        ("True", "KubeletReady", "the node is simulated and ready")
    } else {
        (
            "False",
            "KubeletNotReady",
            "the node is simulated, and not ready in the fleet file",
        )
    };
    NodeCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}

#[cfg(test)]
mod tests {
    use berth_api::cluster::{ClusterStatus, NodeSummary, ResourceSummary};

    use super::*;

    fn cluster_with(
        total: Option<i32>,
        ready: Option<i32>,
        allocatable: &[(&str, &str)],
    ) -> Cluster {
        let mut cluster = crate::fleet::generate(1).remove(0);
        cluster.status = Some(ClusterStatus {
            node_summary: Some(NodeSummary {
                total_num: total,
                ready_num: ready,
            }),
            resource_summary: Some(ResourceSummary {
                allocatable: allocatable
                    .iter()
                    .map(|(name, text)| ((*name).to_owned(), (*text).into()))
                    .collect(),
                ..ResourceSummary::default()
            }),
            ..ClusterStatus::default()
        });
        cluster
    }

    fn shares(nodes: &[Node], resource: &str) -> Vec<String> {
        let share = |node: &Node| {
            let status = node.status.as_ref().unwrap();
            status.allocatable.as_ref().unwrap()[resource].0.clone()
        };
        nodes.iter().map(share).collect()
    }

    #[test]
    fn the_capacity_is_divided_exactly_among_the_nodes() {
        let cluster = cluster_with(
            Some(3),
            Some(2),
            &[("cpu", "10"), ("memory", "96Gi"), ("pods", "331")],
        );
        let nodes = of(&cluster).unwrap();
        assert_eq!(shares(&nodes, "cpu"), ["3334m", "3333m", "3333m"]);
        assert_eq!(shares(&nodes, "memory"), ["32Gi", "32Gi", "32Gi"]);
        assert_eq!(shares(&nodes, "pods"), ["111", "110", "110"]);
        let zones: Vec<_> = nodes
            .iter()
            .map(|node| &node.metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"])
            .collect();
        assert_eq!(zones, ["eu-west-1a", "eu-west-1b", "eu-west-1a"]);
        let ready: Vec<_> = nodes
            .iter()
            .map(|node| {
                let status = node.status.as_ref().unwrap();
                status.conditions.as_ref().unwrap()[0].status.clone()
            })
            .collect();
        assert_eq!(ready, ["True", "True", "False"]);
        let addresses = nodes.iter().map(|node| {
            let addresses = node.status.as_ref().unwrap().addresses.as_ref().unwrap();
            addresses[0].address.as_str()
        });
        let addresses: Vec<&str> = addresses.collect();
        assert_eq!(addresses, ["172.18.0.2", "172.18.0.3", "172.18.0.4"]);
    }

    #[test]
    fn a_capacity_without_a_number_of_nodes_gets_one_node() {
        assert_eq!(
            of(&cluster_with(None, None, &[("cpu", "1")]))
                .unwrap()
                .len(),
            1
        );
        assert_eq!(of(&cluster_with(None, None, &[])).unwrap().len(), 0);
        assert_eq!(of(&cluster_with(Some(-1), None, &[])).unwrap().len(), 0);
    }

    #[test]
    fn an_error_names_the_invalid_quantity() {
        let error = of(&cluster_with(Some(1), None, &[("memory", "much")])).unwrap_err();
        assert!(error.to_string().contains("allocatable.memory"), "{error}");
    }
}
