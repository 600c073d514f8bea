//! What of a member's nodes and pods counts, so that a large member costs little memory.

pub use berth_api::pod_requests::Amounts;
use berth_api::pod_requests::{self, amounts};
use k8s_openapi::api::core::v1::{Node, Pod};

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
            requests: spec.map(pod_requests::of).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_counts_where_it_is_and_until_it_has_ended() {
        let pod = |node: &str, phase: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}))
            .unwrap();
            let facts = PodFacts::of(&pod);
            (facts.node, facts.finished)
        };
        assert_eq!(pod("n", "Running"), (Some("n".to_owned()), false));
        assert_eq!(pod("", "Pending"), (None, false));
        assert!(pod("n", "Failed").1);
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
