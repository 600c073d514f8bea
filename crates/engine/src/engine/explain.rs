//! The explanation of a decision, which covers each tried affinity term and each cluster of the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::trace::Trace;
use crate::candidate::Candidate;
use crate::cluster_set::Bits;
use crate::error::ScheduleError;
use crate::estimate::Basis;
use crate::fleet::Snapshot;
use crate::framework::{DivisionStep, Reason, SelectionExplanation, Share};

/// The last stage of a decision that a cluster reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// The cluster is being deleted, so the engine did not consider it.
    Deleting,
    /// A PreFilter or Filter plugin rejected the cluster.
    Filtered,
    /// The cluster passed the filters but was not selected.
    Considered,
    /// The cluster was selected but got no replicas.
    Selected,
    /// The cluster is part of the result.
    Placed,
}

/// The explanation for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExplanation {
    /// The last stage that the cluster reached.
    pub stage: Stage,
    /// The plugin that rejected the cluster, and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The weighted scores of the cluster, by plugin name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// The inputs of plugins that are not in the Cluster object, by plugin name. Each line describes one input, such as a
    /// score of a ClusterScore.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Vec<String>>,
    /// The number of further replicas (or component sets) that fit into the cluster, by estimator name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub estimates: BTreeMap<String, i32>,
    /// The bases of the estimates, by estimator name. Only some estimators provide a basis.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bases: BTreeMap<String, Basis>,
    /// The tier of the cluster. Tiers above 0 contain overflow groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The number of replicas that the cluster can have in total: the further replicas that fit, plus the current
    /// replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<i64>,
    /// The replicas that the cluster had before the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The replicas that the decision assigns to the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// True if the cluster passed the filters only because it already has the workload.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spared: bool,
}

/// The rejection of a cluster by a PreFilter or Filter plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The name of the plugin.
    pub plugin: String,
    /// The reason that the plugin returned.
    pub reason: String,
}

/// The explanation of the attempt for one affinity term. A placement without affinity terms has a single attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermExplanation {
    /// The name of the affinity term. Absent if the placement has no affinity terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// The error that makes the affinity term infeasible. Absent if the term is feasible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The weights of the score plugins, by plugin name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, i64>,
    /// The explanation of the selection. Absent if the select plugin returns none, for example without spread
    /// constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionExplanation>,
    /// The steps in which the assign plugin divided the replicas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub division: Vec<DivisionStep>,
    /// The explanations for all clusters of the fleet, by cluster name.
    pub clusters: BTreeMap<String, ClusterExplanation>,
}

/// The explanation of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The explanations of all tried affinity terms, in order. For a placement without affinity terms, there is one
    /// explanation without a name.
    pub terms: Vec<TermExplanation>,
}

impl Explanation {
    /// Returns the explanations for the clusters in the last tried affinity term. After a success, this is the term in
    /// use.
    pub fn clusters_of_last_term(&self) -> Option<&BTreeMap<String, ClusterExplanation>> {
        self.terms.last().map(|term| &term.clusters)
    }
}

/// A [`Trace`] that collects the explanation while the engine decides.
#[derive(Debug, Default)]
pub(super) struct Explainer {
    explanation: Explanation,
    names: Vec<Arc<str>>,
}

impl Explainer {
    pub(super) fn finish(self) -> Explanation {
        self.explanation
    }

    fn cluster(&mut self, ordinal: usize) -> Option<&mut ClusterExplanation> {
        let name = self.names.get(ordinal)?;
        self.explanation.terms.last_mut()?.clusters.get_mut(&**name)
    }
}

impl Trace for Explainer {
    const EXPLAINS: bool = true;

    fn term(&mut self, snapshot: &Snapshot, term: Option<&str>) {
        self.names = snapshot.topology.names.to_vec();
        let clusters = snapshot.clusters().map(|cluster| {
            let stage = if cluster.is_deleting() {
                Stage::Deleting
            } else {
                Stage::Considered
            };
            let explanation = ClusterExplanation {
                stage,
                refusal: None,
                scores: BTreeMap::new(),
                inputs: BTreeMap::new(),
                estimates: BTreeMap::new(),
                bases: BTreeMap::new(),
                tier: None,
                available: None,
                before: None,
                replicas: None,
                spared: false,
            };
            (cluster.name().to_owned(), explanation)
        });
        self.explanation.terms.push(TermExplanation {
            affinity: term.map(str::to_owned),
            clusters: clusters.collect(),
            ..TermExplanation::default()
        });
    }

    fn rejected(&mut self, ordinal: usize, plugin: &str, reason: &Reason) {
        if let Some(cluster) = self.cluster(ordinal) {
            cluster.stage = Stage::Filtered;
            cluster.refusal = Some(Refusal {
                plugin: plugin.to_owned(),
                reason: reason.to_string(),
            });
        }
    }

    fn inputs(&mut self, ordinal: usize, plugin: &str, inputs: Vec<String>) {
        if inputs.is_empty() {
            return;
        }
        if let Some(cluster) = self.cluster(ordinal) {
            cluster.inputs.insert(plugin.to_owned(), inputs);
        }
    }

    fn scored(&mut self, plugin: &str, weight: i64, candidates: &[Candidate], added: &[i64]) {
        if let Some(term) = self.explanation.terms.last_mut() {
            term.weights.insert(plugin.to_owned(), weight);
        }
        for (candidate, score) in candidates.iter().zip(added) {
            if let Some(cluster) = self.cluster(candidate.ordinal) {
                cluster.scores.insert(plugin.to_owned(), *score);
            }
        }
    }

    fn estimated(&mut self, estimator: &str, clusters: &[usize], estimates: &[i32]) {
        for (&ordinal, &estimate) in clusters.iter().zip(estimates) {
            if let Some(cluster) = self.cluster(ordinal) {
                cluster.estimates.insert(estimator.to_owned(), estimate);
            }
        }
    }

    fn estimate_basis(&mut self, estimator: &str, ordinal: usize, basis: Basis) {
        if let Some(cluster) = self.cluster(ordinal) {
            cluster.bases.insert(estimator.to_owned(), basis);
        }
    }

    fn candidates(&mut self, candidates: &[Candidate]) {
        for candidate in candidates {
            if let Some(cluster) = self.cluster(candidate.ordinal) {
                cluster.tier = Some(candidate.tier);
                cluster.available = Some(candidate.available());
            }
        }
    }

    fn spared(&mut self, clusters: &Bits) {
        for ordinal in clusters.iter() {
            if let Some(cluster) = self.cluster(ordinal) {
                cluster.spared = true;
            }
        }
    }

    fn selection(&mut self, selection: SelectionExplanation) {
        if let Some(term) = self.explanation.terms.last_mut() {
            term.selection = Some(selection);
        }
    }

    fn division(&mut self, steps: Vec<DivisionStep>) {
        if let Some(term) = self.explanation.terms.last_mut() {
            term.division = steps;
        }
    }

    fn selected(&mut self, selected: &[Candidate]) {
        for candidate in selected {
            if let Some(cluster) = self.cluster(candidate.ordinal) {
                cluster.stage = Stage::Selected;
            }
        }
    }

    fn assigned(&mut self, shares: &[Share], current: &[Share]) {
        for share in current {
            if let Some(cluster) = self.cluster(share.ordinal) {
                cluster.before = Some(share.replicas);
            }
        }
        for share in shares {
            if let Some(cluster) = self.cluster(share.ordinal) {
                cluster.stage = Stage::Placed;
                cluster.replicas = Some(share.replicas);
            }
        }
    }

    fn failed(&mut self, error: &ScheduleError) {
        if let Some(term) = self.explanation.terms.last_mut() {
            term.failure = Some(error.to_string());
        }
    }
}
