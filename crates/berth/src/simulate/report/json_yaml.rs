//! The formats `-o json` and `-o yaml`. For compatibility, later versions may add fields and must keep these fields.

use std::collections::BTreeMap;

use berth_engine::ClusterExplanation;
use berth_plan::what_if::{self, Failure, Move, Share};
use serde::Serialize;

/// The decision about a binding.
#[derive(Debug, Serialize)]
pub(super) struct Decision<'a> {
    binding: Binding<'a>,
    /// Previous clusters, if the simulation compares two states.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a [Share]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<&'a str>,
    clusters: &'a [Share],
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a Failure>,
    explanation: BTreeMap<&'a str, &'a ClusterExplanation>,
}

/// Namespace and name of a binding. The namespace of a ClusterResourceBinding is empty.
#[derive(Debug, Serialize)]
struct Binding<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Decision<'a> {
    pub(super) fn new(decision: &'a what_if::Decision) -> Self {
        let clusters = decision.term().map(|term| &term.clusters);
        Self {
            binding: Binding {
                namespace: decision.key.namespace.as_deref().unwrap_or_default(),
                name: &decision.key.name,
            },
            from: None,
            affinity: decision.affinity.as_deref(),
            clusters: &decision.clusters,
            failure: decision.failure.as_ref(),
            explanation: clusters
                .into_iter()
                .flatten()
                .map(|(name, cluster)| (name.as_str(), cluster))
                .collect(),
        }
    }

    pub(super) fn moved(one: &'a Move) -> Self {
        Self {
            from: Some(&one.from),
            ..Self::new(&one.to)
        }
    }
}
