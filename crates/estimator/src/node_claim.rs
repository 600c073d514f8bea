//! The condition that a pod template sets on nodes, with the rules of kube-scheduler: node selector, required node
//! affinity, and tolerations.

use std::collections::BTreeMap;

use berth_api::label_selector::LabelRequirement;
use berth_api::toleration::Toleration;
use berth_estimator_protocol::kubernetes_types::DecodeError;
use berth_estimator_protocol::wire::pb;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

/// Key of the taint that corresponds to `spec.unschedulable` of a node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
/// The only field that a node affinity can select.
const NAME_FIELD: &str = "metadata.name";

/// The condition that a pod template sets on nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeClaim {
    /// Labels that nodes must have.
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Terms of the required node affinity, of which a node must satisfy at least one. `None` selects all nodes.
    pub(crate) affinity: Option<Vec<AffinityTerm>>,
    tolerations: Vec<Toleration>,
}

/// A term of a node affinity. A node must satisfy all of its requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AffinityTerm {
    pub(crate) labels: Vec<LabelRequirement>,
    pub(crate) fields: Vec<FieldRequirement>,
}

/// A requirement on a field of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldRequirement {
    key: String,
    value: String,
    /// True for the operator `In`, and false for `NotIn`.
    is_equal: bool,
}

/// A taint that keeps pods without a toleration away from a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RepellingTaint {
    key: String,
    value: String,
    effect: &'static str,
}

impl RepellingTaint {
    /// Converts a taint. Returns `None` if its effect does not keep pods away.
    pub(crate) fn new(key: &str, value: &str, effect: &str) -> Option<Self> {
        let effect = [NO_SCHEDULE, NO_EXECUTE]
            .into_iter()
            .find(|known| *known == effect)?;
        Some(Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect,
        })
    }

    /// Returns the taint of a node whose `spec.unschedulable` is true.
    pub(crate) fn unschedulable() -> Self {
        Self {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: NO_SCHEDULE,
        }
    }
}

impl NodeClaim {
    /// Decodes the claim of a request.
    ///
    /// # Errors
    /// When the bytes of the affinity or of a toleration are malformed.
    pub(crate) fn decode(claim: Option<&pb::NodeClaim>) -> Result<Self, DecodeError> {
        let Some(claim) = claim else {
            return Ok(Self::default());
        };
        let affinity = claim.decode_affinity()?;
        let affinity = affinity.map(|affinity| {
            let terms = affinity.node_selector_terms.iter();
            terms.filter_map(AffinityTerm::new).collect()
        });
        Ok(Self {
            node_selector: claim.node_selector.clone(),
            affinity,
            tolerations: claim.decode_tolerations()?,
        })
    }

    /// Reports whether the template tolerates all of these taints.
    pub(crate) fn tolerates(&self, taints: &[RepellingTaint]) -> bool {
        taints.iter().all(|taint| {
            let mut tolerations = self.tolerations.iter();
            tolerations.any(|it| it.tolerates(&taint.key, &taint.value, taint.effect))
        })
    }
}

impl AffinityTerm {
    /// Converts a term. Returns `None` if no node satisfies the term because it is empty or invalid.
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
    pub(crate) fn matches(&self, node: &str) -> bool {
        let value = if self.key == NAME_FIELD { node } else { "" };
        (value == self.value) == self.is_equal
    }
}
