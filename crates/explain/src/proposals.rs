//! Proposals: changes that may place a workload on a cluster. They are derived from the reason why the cluster does not
//! have the workload.
//!
//! A proposal may fail to place the workload. Therefore the search lets the engine decide with the changes applied, and
//! reports only changes that place the workload.

use std::collections::BTreeSet;

use berth_engine::{
    ApiEnablement, Basis, ClusterAffinity, ClusterEviction, ClusterExplanation, DivisionOperation,
    Explanation, GroupChoice, SpreadConstraint, Stage, Strategy, TaintToleration, TermExplanation,
    UnmetRequirement, WeightBasis,
};

use crate::affinity_changes;
use crate::change::{Change, TaintRef};
use crate::changed_case::Explained;

/// Maximum number of existing regions, zones or providers to propose for a cluster.
const FIELD_VALUES: usize = 3;

/// A proposal for the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proposal {
    /// Changes that must be applied together.
    Changes(Vec<Change>),
    /// A number that the search must change by as little as possible, and the limit of the new value.
    Number(Number, i64),
}

/// A number that a change can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Capacity {
        cluster: String,
        from: i64,
    },
    NodeCapacity {
        cluster: String,
        from: i64,
        unmet: Option<UnmetRequirement>,
    },
    Replicas {
        from: i64,
    },
    MaxGroups {
        by: String,
        from: i64,
    },
    MinGroups {
        by: String,
        from: i64,
    },
    Weight {
        cluster: String,
    },
}

impl Number {
    /// Returns the present value.
    pub(crate) fn from(&self) -> i64 {
        match self {
            Self::Capacity { from, .. }
            | Self::NodeCapacity { from, .. }
            | Self::Replicas { from }
            | Self::MaxGroups { from, .. }
            | Self::MinGroups { from, .. } => *from,
            Self::Weight { .. } => 0,
        }
    }

    /// Returns the change that sets the number to `to`.
    pub(crate) fn change(&self, to: i64) -> Change {
        match self.clone() {
            Self::Capacity { cluster, from } => Change::RaiseCapacity { cluster, from, to },
            Self::NodeCapacity {
                cluster,
                from,
                unmet,
            } => Change::RaiseNodeCapacity {
                cluster,
                from,
                to,
                unmet,
            },
            Self::Replicas { from } => Change::ScaleReplicas { from, to },
            Self::MaxGroups { by, from } => Change::RaiseMaxGroups { by, from, to },
            Self::MinGroups { by, from } => Change::LowerMinGroups { by, from, to },
            Self::Weight { cluster } => Change::SetWeight {
                cluster,
                weight: to,
            },
        }
    }
}

/// Returns the proposals for a cluster, from the explanations of all deciding affinity terms.
pub(crate) fn for_cluster(name: &str, explained: &Explained) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    for term in deciding_terms(explained) {
        let Some(cluster) = term.clusters.get(name) else {
            continue;
        };
        let of_term = match cluster.stage {
            Stage::Deleting | Stage::Placed => Vec::new(),
            Stage::Filtered => filtered(name, cluster, explained),
            Stage::Considered => considered(name, cluster, term, explained),
            Stage::Selected => selected(name, cluster, term, explained),
        };
        for proposal in of_term {
            if !proposals.contains(&proposal) {
                proposals.push(proposal);
            }
        }
    }
    proposals
}

/// Returns the deciding affinity terms. This is the term in use or, if the decision failed, every tried term.
fn deciding_terms(explained: &Explained) -> &[TermExplanation] {
    let Explanation { terms } = &explained.explanation;
    if explained.outcome.result.is_ok() {
        terms.last().map_or(&[], std::slice::from_ref)
    } else {
        terms
    }
}

fn filtered(name: &str, cluster: &ClusterExplanation, explained: &Explained) -> Vec<Proposal> {
    let Some(refusal) = &cluster.refusal else {
        return Vec::new();
    };
    match refusal.plugin.as_str() {
        ApiEnablement::NAME => {
            let (api_version, kind) = explained.request.resource();
            vec![Proposal::Changes(vec![Change::InstallApi {
                cluster: name.to_owned(),
                api_version: api_version.to_owned(),
                api_kind: kind.to_owned(),
            }])]
        }
        TaintToleration::NAME => taints(name, explained),
        ClusterAffinity::NAME => affinity_changes::proposals(name, explained)
            .into_iter()
            .map(Proposal::Changes)
            .collect(),
        SpreadConstraint::NAME => fields(name, &refusal.reason, explained),
        ClusterEviction::NAME => vec![Proposal::Changes(vec![Change::EndEviction {
            cluster: name.to_owned(),
        }])],
        _ => Vec::new(),
    }
}

/// Returns two proposals: to remove all taints that the placement does not tolerate, and to tolerate these taints.
fn taints(name: &str, explained: &Explained) -> Vec<Proposal> {
    let snapshot = &explained.snapshot;
    let cluster = snapshot
        .ordinal(name)
        .and_then(|ordinal| snapshot.cluster(ordinal));
    let tolerations = explained.request.placement().tolerations();
    let untolerated: Vec<TaintRef> = cluster
        .iter()
        .flat_map(berth_engine::ClusterView::taints)
        .filter(|taint| !tolerations.iter().any(|t| t.tolerates(taint)))
        .map(|taint| TaintRef {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.as_str().to_owned(),
        })
        .collect();
    let cluster = name.to_owned();
    let removed = untolerated.iter().cloned().map(|taint| {
        if taint.key == berth_api::well_known::UNSCHEDULABLE {
            Change::Uncordon {
                cluster: cluster.clone(),
            }
        } else {
            Change::RemoveTaint {
                cluster: cluster.clone(),
                taint,
            }
        }
    });
    let tolerated = untolerated
        .iter()
        .cloned()
        .map(|taint| Change::Tolerate { taint });
    vec![
        Proposal::Changes(removed.collect()),
        Proposal::Changes(tolerated.collect()),
    ]
}

/// Proposes values for the field that a spread constraint requires: the first values in the fleet by name, and one
/// unused value.
fn fields(name: &str, reason: &str, explained: &Explained) -> Vec<Proposal> {
    let field = ["region", "provider", "zone"]
        .into_iter()
        .find(|field| reason.contains(field));
    let Some(field) = field else {
        return Vec::new();
    };
    let mut values: BTreeSet<String> = BTreeSet::new();
    for cluster in explained.snapshot.clusters() {
        match field {
            "region" => values.extend(Some(cluster.region().to_owned())),
            "provider" => values.extend(Some(cluster.provider().to_owned())),
            _ => values.extend(cluster.zones().map(str::to_owned)),
        }
    }
    values.remove("");
    let unused = format!("{field}-of-{name}");
    let known = values.into_iter().take(FIELD_VALUES);
    known
        .chain([unused])
        .map(|value| {
            Proposal::Changes(vec![Change::SetField {
                cluster: name.to_owned(),
                field: field.to_owned(),
                value,
            }])
        })
        .collect()
}

fn considered(
    name: &str,
    cluster: &ClusterExplanation,
    term: &TermExplanation,
    explained: &Explained,
) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let choices = term.selection.iter().flat_map(|s| &s.choices);
    for choice in choices {
        let has_it = choice
            .groups
            .iter()
            .any(|group| group.chosen && group.clusters.iter().any(|c| c == name));
        if !has_it {
            proposals.extend(groups(choice));
        }
    }
    proposals.extend(more_capacity(name, cluster, term, explained));
    if term.failure.is_some() {
        proposals.extend(fewer_replicas(explained));
    }
    proposals
}

/// Proposes other bounds for a spread constraint whose chosen groups do not include the cluster.
fn groups(choice: &GroupChoice) -> Vec<Proposal> {
    let satisfied = choice.groups.iter().any(|group| group.chosen);
    let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let formed = number(choice.groups.len());
    let max = choice.max.map_or(0, number);
    let mut proposals = Vec::new();
    if choice.max.is_some() || choice.by == "cluster" {
        let by = choice.by.clone();
        proposals.push(Proposal::Number(
            Number::MaxGroups { by, from: max },
            formed,
        ));
    }
    let min = number(choice.min);
    if !satisfied && min > 1 {
        let by = choice.by.clone();
        proposals.push(Proposal::Number(Number::MinGroups { by, from: min }, 1));
    }
    proposals
}

fn selected(
    name: &str,
    cluster: &ClusterExplanation,
    term: &TermExplanation,
    explained: &Explained,
) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let step = term.division.last();
    let operation = step.map(|step| step.operation);
    if explained.request.replicas() == 0 {
        return more_replicas(explained);
    }
    if matches!(
        operation,
        Some(DivisionOperation::Keep | DivisionOperation::Add | DivisionOperation::Shrink)
    ) {
        proposals.push(Proposal::Changes(vec![Change::Reschedule]));
    }
    if let Strategy::StaticWeights(rules) = explained.request.placement().strategy() {
        let by_rule = step.is_none_or(|step| step.weights == WeightBasis::Rules);
        if by_rule && !rules.is_empty() {
            let greatest = rules.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
            let cluster = name.to_owned();
            proposals.push(Proposal::Number(
                Number::Weight { cluster },
                greatest.saturating_mul(2).max(4),
            ));
        }
    } else if operation != Some(DivisionOperation::Keep) {
        proposals.extend(more_capacity(name, cluster, term, explained));
    }
    if term.failure.is_some() {
        proposals.extend(fewer_replicas(explained));
    } else {
        proposals.extend(more_replicas(explained));
    }
    proposals
}

/// Proposes more free capacity in the cluster. The limit is greater than twice the requested replicas, and greater than
/// twice the available capacity of each cluster.
fn more_capacity(
    name: &str,
    cluster: &ClusterExplanation,
    term: &TermExplanation,
    explained: &Explained,
) -> Option<Proposal> {
    if explained.request.components().len() > 1 {
        return None;
    }
    let from = cluster.estimates.values().min().copied()?;
    let largest = term
        .clusters
        .values()
        .filter_map(|other| other.available)
        .max()
        .unwrap_or(0);
    let replicas = explained.request.replicas();
    let limit = replicas.max(largest).saturating_mul(2).saturating_add(2);
    let from = i64::from(from);
    // Only the estimates of accurate estimators have a basis. Changes of the status do not change these estimates.
    let mut estimates = cluster.estimates.iter();
    let limited_by_nodes = estimates.any(|(estimator, estimate)| {
        cluster.bases.contains_key(estimator) && i64::from(*estimate) < replicas
    });
    let bases = &cluster.bases;
    (limit > from).then(|| {
        let cluster = name.to_owned();
        let number = if limited_by_nodes {
            Number::NodeCapacity {
                cluster,
                from,
                unmet: bases.values().find_map(unmet_requirement),
            }
        } else {
            Number::Capacity { cluster, from }
        };
        Proposal::Number(number, limit)
    })
}

/// Returns the requirement of the pods that no node of the cluster satisfies.
fn unmet_requirement(basis: &Basis) -> Option<UnmetRequirement> {
    match basis {
        Basis::Nodes { unmet, .. } => unmet.clone(),
        Basis::Fresh | Basis::Stale { .. } | Basis::Missing { .. } => None,
    }
}

fn fewer_replicas(explained: &Explained) -> Vec<Proposal> {
    let from = explained.request.replicas();
    if from > 1 {
        vec![Proposal::Number(Number::Replicas { from }, 1)]
    } else {
        Vec::new()
    }
}

fn more_replicas(explained: &Explained) -> Vec<Proposal> {
    let from = explained.request.replicas();
    let limit = from.saturating_mul(4).saturating_add(8);
    vec![Proposal::Number(Number::Replicas { from }, limit)]
}
