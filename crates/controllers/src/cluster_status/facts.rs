//! What of a member's nodes and pods counts, so that a large member costs little memory.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Whether it says that it is ready.
    pub ready: bool,
    /// What it offers.
    pub allocatable: Amounts,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The node that it is on.
    pub node: Option<String>,
    /// Whether it has ended and needs nothing any more.
    pub finished: bool,
    /// What it asks for.
    pub requests: Amounts,
}

impl NodeFacts {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|c| c.type_ == "Ready");
        Self {
            ready: ready.is_some_and(|condition| condition.status == "True"),
            allocatable: amounts(status.allocatable.as_ref()),
        }
    }
}

impl PodFacts {
    pub(super) fn of(pod: &Pod) -> Self {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let spec = pod.spec.as_ref();
        Self {
            node: spec
                .and_then(|s| s.node_name.clone())
                .filter(|n| !n.is_empty()),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            requests: spec.map(requests).unwrap_or_default(),
        }
    }
}

/// For each resource the sum over the containers or the most of an init container, whichever is more, and the
/// overhead on top.
fn requests(pod: &PodSpec) -> Amounts {
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|r| r.requests.as_ref()))
    };
    let mut total = Amounts::new();
    for container in &pod.containers {
        add(&mut total, &of(container));
    }
    for container in pod.init_containers.iter().flatten() {
        for (resource, amount) in of(container) {
            let most = total.entry(resource).or_default();
            *most = (*most).max(amount);
        }
    }
    add(&mut total, &amounts(pod.overhead.as_ref()));
    total
}

/// What is no quantity counts as nothing: a server does not let it in.
fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    list.into_iter()
        .flatten()
        .filter_map(|(resource, text)| Some((resource.clone(), Quantity::parse(&text.0).ok()?)))
        .collect()
}

/// Adds each of the amounts.
pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = total.entry(resource.clone()).or_default();
        *sum = *sum + *amount;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_asks_for_its_containers_or_for_its_greatest_init_container() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {
                "nodeName": "n",
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                    {"name": "b", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "c"},
                ],
                "initContainers": [
                    {"name": "i", "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}},
                    {"name": "j", "resources": {"requests": {"memory": "2Gi"}}},
                ],
                "overhead": {"cpu": "250m"},
            },
            "status": {"phase": "Running"},
        }))
        .unwrap();
        let facts = PodFacts::of(&pod);
        let asked: Vec<String> = facts
            .requests
            .iter()
            .map(|(r, q)| format!("{r}={q}"))
            .collect();
        assert_eq!(asked, ["cpu=1750m", "memory=3Gi"]);
        assert_eq!((facts.node.as_deref(), facts.finished), (Some("n"), false));
    }

    #[test]
    fn a_node_is_ready_only_if_it_says_so() {
        let node = |conditions: serde_json::Value| {
            let node: Node = serde_json::from_value(json!({"status": {
                "conditions": conditions, "allocatable": {"cpu": "4", "odd": "much"}}}))
            .unwrap();
            NodeFacts::of(&node)
        };
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        assert!(node(ready("True")).ready);
        assert!(!node(ready("Unknown")).ready);
        assert!(!node(json!([])).ready);
        assert_eq!(node(json!([])).allocatable.len(), 1);
    }
}
