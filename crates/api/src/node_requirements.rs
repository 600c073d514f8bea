//! The requirements of a pod template on nodes, with the rules of kube-scheduler: node selector, required node affinity,
//! and tolerations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use serde::{Deserialize, Serialize};

use crate::binding::NodeClaim;
use crate::label_selector::{LabelRequirement, Relation};
use crate::toleration::Toleration;

/// Key of the taint that corresponds to `spec.unschedulable` of a node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
/// The only field that a node affinity can select.
const NAME_FIELD: &str = "metadata.name";

/// The label of a group of nodes, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLabel<'a> {
    /// The value of the label, or `None` if the nodes do not have the label.
    Value(Option<&'a str>),
    /// The nodes may have any value of this label.
    Unknown,
}

/// The requirements of a pod template on nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRequirements {
    /// The labels that a node must have.
    pub selector: BTreeMap<String, String>,
    /// The terms of the required node affinity, of which a node must satisfy at least one. `None` selects all nodes.
    pub affinity: Option<Vec<AffinityTerm>>,
    tolerations: Vec<Toleration>,
}

/// A term of a node affinity. A node must satisfy all of its requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The requirements on labels.
    pub labels: Vec<LabelRequirement>,
    /// The requirements on fields.
    pub fields: Vec<FieldRequirement>,
}

/// A requirement on a field of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    key: String,
    value: String,
    /// True for the operator `In`, and false for `NotIn`.
    is_equal: bool,
}

/// A taint that keeps pods without a toleration away from a node: its effect is `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTaint {
    /// The key.
    pub key: String,
    /// The value, empty if the taint has no value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect.
    pub effect: String,
}

impl NodeTaint {
    /// Returns the taints of a node that keep pods away, sorted and without duplicates. A cordoned node has the taint
    /// `node.kubernetes.io/unschedulable`.
    pub fn of(node: &Node) -> Vec<Self> {
        let Some(spec) = &node.spec else {
            return Vec::new();
        };
        let taints = spec.taints.iter().flatten();
        let repelling = taints.filter(|taint| matches!(&*taint.effect, NO_SCHEDULE | "NoExecute"));
        let mut repelling: Vec<Self> = repelling
            .map(|taint| Self {
                key: taint.key.clone(),
                value: taint.value.clone().unwrap_or_default(),
                effect: taint.effect.clone(),
            })
            .collect();
        if spec.unschedulable == Some(true) {
            repelling.push(Self {
                key: UNSCHEDULABLE.to_owned(),
                value: String::new(),
                effect: NO_SCHEDULE.to_owned(),
            });
        }
        repelling.sort_unstable();
        repelling.dedup();
        repelling
    }
}

impl NodeRequirements {
    /// Reads the requirements of a binding or of one of its components.
    pub fn new(claim: Option<&NodeClaim>) -> Self {
        let Some(claim) = claim else {
            return Self::default();
        };
        Self::of_parts(
            claim.node_selector.clone(),
            claim.hard_node_affinity.as_ref(),
            claim.tolerations.clone(),
        )
    }

    /// Reads the requirements from the fields of a pod template.
    pub fn of_parts(
        selector: BTreeMap<String, String>,
        affinity: Option<&NodeSelector>,
        tolerations: Vec<Toleration>,
    ) -> Self {
        let terms = |affinity: &NodeSelector| {
            let terms = affinity.node_selector_terms.iter();
            terms.filter_map(AffinityTerm::new).collect()
        };
        Self {
            selector,
            affinity: affinity.map(terms),
            tolerations,
        }
    }

    /// Reports whether nodes with these labels can satisfy the node selector and the node affinity. A label with an
    /// unknown value satisfies each requirement, and so do fields, because the names of the nodes are unknown.
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
                .is_none_or(|terms| terms.iter().any(|term| term.labels.iter().all(satisfies)))
    }

    /// Reports whether the template tolerates all of these taints.
    pub fn tolerate(&self, taints: &[NodeTaint]) -> bool {
        taints.iter().all(|taint| {
            let mut tolerations = self.tolerations.iter();
            tolerations.any(|it| it.tolerates(&taint.key, &taint.value, &taint.effect))
        })
    }
}

impl AffinityTerm {
    /// Reads a term. Returns `None` if no node satisfies the term because it is empty or invalid.
    fn new(term: &NodeSelectorTerm) -> Option<Self> {
        let labels = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        if labels.is_empty() && fields.is_empty() {
            return None;
        }
        let label = |requirement: &NodeSelectorRequirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            LabelRequirement::new(&requirement.key, &requirement.operator, values).ok()
        };
        Some(Self {
            labels: labels.iter().map(label).collect::<Option<_>>()?,
            fields: fields
                .iter()
                .map(FieldRequirement::new)
                .collect::<Option<_>>()?,
        })
    }
}

impl FieldRequirement {
    fn new(requirement: &NodeSelectorRequirement) -> Option<Self> {
        let [value] = requirement.values.as_deref()? else {
            return None;
        };
        Some(Self {
            key: requirement.key.clone(),
            value: value.clone(),
            is_equal: match requirement.operator.as_str() {
                "In" => true,
                "NotIn" => false,
                _ => return None,
            },
        })
    }

    /// Reports whether a node with this name satisfies the requirement. Other fields than the name have no value.
    pub fn matches(&self, node: &str) -> bool {
        let value = if self.key == NAME_FIELD { node } else { "" };
        (value == self.value) == self.is_equal
    }
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
        let node: Node =
            serde_json::from_value(json!({ "spec": { "unschedulable": true, "taints": [
            { "key": "gpu", "value": "a100", "effect": "NoSchedule" },
            { "key": "slow", "effect": "PreferNoSchedule" }] } }))
            .unwrap();
        let taints = NodeTaint::of(&node);
        let keys: Vec<&str> = taints.iter().map(|taint| &*taint.key).collect();
        assert_eq!(keys, ["gpu", "node.kubernetes.io/unschedulable"]);
        let tolerate = |keys: &[&str]| {
            let tolerations = keys
                .iter()
                .map(|key| json!({ "key": key, "operator": "Exists" }));
            let tolerations: Vec<Value> = tolerations.collect();
            requirements(json!({ "tolerations": tolerations })).tolerate(&taints)
        };
        assert!(tolerate(&["gpu", "node.kubernetes.io/unschedulable"]));
        assert!(!tolerate(&["gpu"]));
        assert!(!tolerate(&[]));
        assert!(NodeRequirements::default().tolerate(&[]));
    }
}
