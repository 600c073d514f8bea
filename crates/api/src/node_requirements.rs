//! The requirements of a pod template on nodes, with the rules of kube-scheduler: node selector, required node affinity,
//! and tolerations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

use crate::binding::NodeClaim;
use crate::label_selector::{LabelRequirement, Relation};
use crate::toleration::Toleration;

/// The label of a group of nodes, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLabel<'a> {
    /// The value of the label, or `None` if the nodes do not have the label.
    Value(Option<&'a str>),
    /// The nodes may have any value of this label.
    Unknown,
}

/// The requirements of a pod template on nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequirements {
    selector: BTreeMap<String, String>,
    /// The terms of the required node affinity, of which a node must satisfy at least one. `None` selects all nodes.
    affinity: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

/// The label requirements of a term of the node affinity. A node must satisfy all of them. Requirements on the name of
/// a node are omitted.
type Term = Vec<LabelRequirement>;

impl NodeRequirements {
    /// Reads the requirements of a binding or of one of its components.
    pub fn new(claim: Option<&NodeClaim>) -> Self {
        let Some(claim) = claim else {
            return Self::default();
        };
        let affinity = claim.hard_node_affinity.as_ref();
        Self {
            selector: claim.node_selector.clone(),
            affinity: affinity.map(|affinity| {
                let terms = affinity.node_selector_terms.iter();
                terms.filter_map(term).collect()
            }),
            tolerations: claim.tolerations.clone(),
        }
    }

    /// Reports whether nodes with these labels can satisfy the node selector and the node affinity. A label with an
    /// unknown value satisfies each requirement.
    pub fn select<'a>(&self, label: impl Fn(&str) -> NodeLabel<'a>) -> bool {
        let has = |key: &str, wanted: &str| match label(key) {
            NodeLabel::Value(value) => value == Some(wanted),
            NodeLabel::Unknown => true,
        };
        let satisfies = |requirement: &LabelRequirement| match label(requirement.key()) {
            NodeLabel::Value(value) => Relation::matches(requirement.relation(), value),
            NodeLabel::Unknown => true,
        };
        let mut selector = self.selector.iter();
        selector.all(|(key, value)| has(key, value))
            && self
                .affinity
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.iter().all(satisfies)))
    }

    /// Reports whether the template tolerates a taint.
    pub fn tolerate(&self, key: &str, value: &str, effect: &str) -> bool {
        let mut tolerations = self.tolerations.iter();
        tolerations.any(|toleration| toleration.tolerates(key, value, effect))
    }
}

/// Reads a term. Returns `None` if no node satisfies the term because it is empty or invalid.
fn term(term: &NodeSelectorTerm) -> Option<Term> {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return None;
    }
    let label = |requirement: &NodeSelectorRequirement| {
        let values = requirement.values.as_deref().unwrap_or_default();
        LabelRequirement::new(&requirement.key, &requirement.operator, values).ok()
    };
    labels.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requirements(claim: Value) -> NodeRequirements {
        let claim: NodeClaim = serde_json::from_value(claim).unwrap();
        NodeRequirements::new(Some(&claim))
    }

    #[test]
    fn selector_and_affinity_select_nodes_by_their_labels() {
        let affinity = |terms: Value| json!({ "hardNodeAffinity": { "nodeSelectorTerms": terms } });
        let expression = |key: &str, operator: &str, values: Value| {
            json!({ "matchExpressions": [
            { "key": key, "operator": operator, "values": values }] })
        };
        // The nodes have the label disk=ssd, and different names.
        let label = |key: &str| match key {
            "disk" => NodeLabel::Value(Some("ssd")),
            "kubernetes.io/hostname" => NodeLabel::Unknown,
            _ => NodeLabel::Value(None),
        };
        for (claim, expected) in [
            (json!({}), true),
            (json!({ "nodeSelector": { "disk": "ssd" } }), true),
            (json!({ "nodeSelector": { "disk": "nvme" } }), false),
            (json!({ "nodeSelector": { "gpu": "a100" } }), false),
            (
                json!({ "nodeSelector": { "kubernetes.io/hostname": "n1" } }),
                true,
            ),
            (
                affinity(json!([expression("disk", "In", json!(["ssd", "nvme"]))])),
                true,
            ),
            (
                affinity(json!([expression("disk", "NotIn", json!(["ssd"]))])),
                false,
            ),
            (
                affinity(json!([
                    expression("gpu", "Exists", json!([])),
                    expression("disk", "Exists", json!([]))
                ])),
                true,
            ),
            (affinity(json!([])), false),
            (affinity(json!([{}])), false),
            (
                affinity(json!([expression("disk", "Unknown", json!([]))])),
                false,
            ),
            (
                affinity(
                    json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }]),
                ),
                true,
            ),
        ] {
            assert_eq!(
                requirements(claim.clone()).select(label),
                expected,
                "{claim}"
            );
        }
    }

    #[test]
    fn a_taint_needs_a_toleration() {
        let tolerant =
            requirements(json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] }));
        assert!(tolerant.tolerate("gpu", "a100", "NoSchedule"));
        assert!(!tolerant.tolerate("spot", "", "NoSchedule"));
        assert!(!NodeRequirements::default().tolerate("gpu", "a100", "NoSchedule"));
    }
}
