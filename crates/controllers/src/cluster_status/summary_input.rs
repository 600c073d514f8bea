//! The fields of nodes and pods that the summaries need. The controller stores these fields instead of whole objects to
//! save memory for large members.

use std::collections::{BTreeMap, HashMap};

use berth_api::node_requirements::NodeTaint;
use berth_api::pod_requests::{self, Amounts, add, amounts};
use berth_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use serde_json::Value;

/// The resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeResources {
    pub(crate) ready: bool,
    pub(crate) allocatable: Amounts,
    pub(crate) labels: BTreeMap<String, String>,
    /// The taints that keep pods away, sorted.
    pub(crate) taints: Vec<NodeTaint>,
}

/// The resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodResources {
    /// The node that the pod is bound to.
    pub(crate) node: Option<String>,
    /// True if the pod has succeeded or failed.
    pub(crate) finished: bool,
    pub(crate) requests: Amounts,
}

impl NodeResources {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|c| c.type_ == "Ready");
        Self {
            ready: ready.is_some_and(|condition| condition.status == "True"),
            allocatable: amounts(status.allocatable.as_ref()),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: NodeTaint::of(node),
        }
    }
}

/// Sums the requests of the unfinished pods on each node. The number of pods is the resource `pods`.
pub(super) fn requested_by_node(pods: &BTreeMap<String, PodResources>) -> HashMap<&str, Amounts> {
    let mut requested: HashMap<&str, Amounts> = HashMap::new();
    let one_pod = Amounts::from([("pods".to_owned(), Quantity::from_integer(1))]);
    for pod in pods.values().filter(|pod| !pod.finished) {
        if let Some(node) = &pod.node {
            let requested = requested.entry(node).or_default();
            add(requested, &pod.requests);
            add(requested, &one_pod);
        }
    }
    requested
}

impl PodResources {
    pub(super) fn of(pod: &Pod) -> Self {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let spec = pod.spec.as_ref();
        Self {
            node: spec
                .and_then(|s| s.node_name.clone())
                .filter(|n| !n.is_empty()),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            requests: spec.map(pod_requests::of).unwrap_or_default(),
        }
    }
}

/// Size of the stored fields without the names of resources, in bytes.
const BASE_WEIGHT: usize = 256;

/// Returns the approximate size of the stored fields of a node.
pub(super) fn weigh_node(node: &DynamicObject, _: usize) -> usize {
    let labels = node.metadata.labels.iter().flatten();
    let labels: usize = labels
        .map(|(key, value)| key.len() + value.len() + 64)
        .sum();
    BASE_WEIGHT + labels + weigh_amounts(&node.data["status"]["allocatable"])
}

/// Returns the approximate size of the stored fields of a pod.
pub(super) fn weigh_pod(pod: &DynamicObject, _: usize) -> usize {
    let spec = &pod.data["spec"];
    let containers = [&spec["containers"], &spec["initContainers"]];
    let containers = containers.into_iter().filter_map(Value::as_array).flatten();
    let requests = containers.map(|container| &container["resources"]["requests"]);
    let requests: usize = requests.map(weigh_amounts).sum();
    let node = spec["nodeName"].as_str().map_or(0, str::len);
    BASE_WEIGHT + node + weigh_amounts(&spec["overhead"]) + requests
}

fn weigh_amounts(amounts: &Value) -> usize {
    let amounts = amounts.as_object().into_iter().flatten();
    amounts.map(|(name, _)| name.len() + 64).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_a_node_after_it_is_bound() {
        let pod = |node: &str, phase: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}))
            .unwrap();
            let pod = PodResources::of(&pod);
            (pod.node, pod.finished)
        };
        assert_eq!(pod("n", "Running"), (Some("n".to_owned()), false));
        assert_eq!(pod("", "Pending"), (None, false));
        assert!(pod("n", "Failed").1);
    }

    #[test]
    fn a_node_is_ready_only_with_a_true_condition() {
        let node = |conditions: serde_json::Value| {
            let node: Node = serde_json::from_value(json!({"status": {
                "conditions": conditions, "allocatable": {"cpu": "4", "odd": "much"}}}))
            .unwrap();
            NodeResources::of(&node)
        };
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        assert!(node(ready("True")).ready);
        assert!(!node(ready("Unknown")).ready);
        assert!(!node(json!([])).ready);
        assert_eq!(node(json!([])).allocatable.len(), 1);
    }
}
