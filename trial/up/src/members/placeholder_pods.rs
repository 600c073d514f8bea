//! Placeholder pods of a simulated member: they request the resources that the member's Cluster manifest lists as
//! allocated, so that the collected status equals the status in the manifest.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::quantity::QuantityText;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use super::nodes::{InvalidQuantity, step};

/// Returns the pods, assigned to the nodes in turn. The number of pods is `allocated.pods` of the manifest, or else the
/// number of nodes.
pub(super) fn of(cluster: &Cluster, nodes: &[Node]) -> Result<Vec<Pod>, InvalidQuantity> {
    let status = cluster.status.clone().unwrap_or_default();
    let allocated = status.resource_summary.unwrap_or_default().allocated;
    if allocated.is_empty() || nodes.is_empty() {
        return Ok(Vec::new());
    }
    let parse = |resource: &str, text: &QuantityText| {
        text.parse()
            .map_err(|source| InvalidQuantity::new("allocated", resource, source))
    };
    let number = match allocated.get("pods") {
        Some(text) => u32::try_from(parse("pods", text)?.value()).unwrap_or_default(),
        None => u32::try_from(nodes.len()).unwrap_or(u32::MAX),
    };
    let mut requests: Vec<BTreeMap<String, ApiQuantity>> = Vec::new();
    requests.resize_with(number as usize, BTreeMap::new);
    for (resource, text) in allocated.iter().filter(|(resource, _)| *resource != "pods") {
        let shares = parse(resource, text)?.split(number, step(resource));
        for (pod, share) in requests.iter_mut().zip(shares) {
            pod.insert(resource.clone(), ApiQuantity(share.to_string()));
        }
    }
    let assigned_nodes = nodes.iter().cycle();
    Ok(requests
        .into_iter()
        .zip(assigned_nodes)
        .zip(1..)
        .map(|((requests, node), number): (_, u32)| pod(number, node.name_any(), requests))
        .collect())
}

fn pod(number: u32, node: String, requests: BTreeMap<String, ApiQuantity>) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("system-{number}")),
            namespace: Some("kube-system".to_owned()),
            labels: Some([("app".to_owned(), "system".to_owned())].into()),
            // `kubectl drain` ignores pods with this annotation, which marks static pods.
            annotations: Some(
                [(
                    "kubernetes.io/config.mirror".to_owned(),
                    "system".to_owned(),
                )]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some(node),
            containers: vec![Container {
                name: "system".to_owned(),
                image: Some("simulated".to_owned()),
                resources: Some(ResourceRequirements {
                    requests: Some(requests),
                    ..ResourceRequirements::default()
                }),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_resources_are_divided_among_pods_on_all_nodes() {
        let mut cluster = crate::fleet::generate(1).remove(0);
        let nodes = super::super::nodes::of(&cluster).unwrap();
        let summary = cluster
            .status
            .as_mut()
            .unwrap()
            .resource_summary
            .as_mut()
            .unwrap();
        summary.allocated = [
            ("cpu".to_owned(), "1".into()),
            ("memory".to_owned(), "12Gi".into()),
            ("pods".to_owned(), "6".into()),
        ]
        .into();
        let pods = of(&cluster, &nodes).unwrap();
        let found: Vec<String> = pods
            .iter()
            .map(|pod| {
                let spec = pod.spec.as_ref().unwrap();
                let resources = spec.containers[0].resources.as_ref().unwrap();
                let requests = resources.requests.as_ref().unwrap();
                let node = spec.node_name.as_deref().unwrap();
                format!("{node} {} {}", requests["cpu"].0, requests["memory"].0)
            })
            .collect();
        assert_eq!(
            found,
            [
                "member1-node-1 167m 2Gi",
                "member1-node-2 167m 2Gi",
                "member1-node-3 167m 2Gi",
                "member1-node-4 167m 2Gi",
                "member1-node-1 166m 2Gi",
                "member1-node-2 166m 2Gi",
            ]
        );
    }

    #[test]
    fn without_allocated_resources_there_are_no_pods() {
        let mut cluster = crate::fleet::generate(1).remove(0);
        let nodes = super::super::nodes::of(&cluster).unwrap();
        assert_eq!(of(&cluster, &[]).unwrap(), []);
        cluster.status.as_mut().unwrap().resource_summary = None;
        assert_eq!(of(&cluster, &nodes).unwrap(), []);
    }
}
