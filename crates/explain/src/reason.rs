//! One sentence for each cluster, which states the reason why the cluster reached its stage in the decision.

use std::cmp::Ordering;
use std::collections::HashMap;

use berth_api::well_known::REPLICA_LIMITS;
use berth_engine::{
    Basis, ClusterExplanation, DividedShare, DivisionOperation, DivisionStep, GroupChoice,
    GroupExplanation, LimitReached, RemainderRule, Request, Stage, TermExplanation, TieBreak,
    WeightBasis,
};

use crate::report::Minimum;

/// The choices among groups in one affinity term, indexed by cluster. Without this index, computing the reasons for a
/// large fleet takes quadratic time.
#[derive(Debug)]
pub(crate) struct Choices<'a>(Vec<ChoiceIndex<'a>>);

/// One choice among groups, indexed by cluster.
#[derive(Debug)]
struct ChoiceIndex<'a> {
    choice: &'a GroupChoice,
    /// The chosen groups.
    chosen: Vec<&'a GroupExplanation>,
    /// The ranks of the groups to which each cluster belongs.
    ranks: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(term: &'a TermExplanation) -> Self {
        let choices = term.selection.iter().flat_map(|of| &of.choices);
        Self(choices.map(ChoiceIndex::new).collect())
    }
}

impl<'a> ChoiceIndex<'a> {
    fn new(choice: &'a GroupChoice) -> Self {
        let mut ranks: HashMap<&str, Vec<usize>> = HashMap::new();
        for (rank, group) in choice.groups.iter().enumerate() {
            for cluster in &group.clusters {
                ranks.entry(cluster).or_default().push(rank);
            }
        }
        Self {
            choice,
            chosen: choice.groups.iter().filter(|group| group.chosen).collect(),
            ranks,
        }
    }

    /// Returns the groups to which a cluster belongs, with their ranks.
    fn groups(&self, cluster: &str) -> impl Iterator<Item = (usize, &'a GroupExplanation)> {
        let ranks = self.ranks.get(cluster).into_iter().flatten();
        ranks.filter_map(|rank| Some((*rank, self.choice.groups.get(*rank)?)))
    }
}

/// Returns the reason for the stage of a cluster.
pub(crate) fn why(
    name: &str,
    cluster: &ClusterExplanation,
    minimum: Option<&Minimum>,
    (term, choices): (&TermExplanation, &Choices<'_>),
    request: &Request,
) -> String {
    match cluster.stage {
        Stage::Deleting => "the cluster is being deleted".to_owned(),
        Stage::Filtered => match &cluster.refusal {
            Some(refusal) => {
                let reason = refusal.reason.trim_start_matches("cluster(s) ");
                format!("{}: {reason}", refusal.plugin)
            }
            None => "rejected".to_owned(),
        },
        Stage::Considered => not_selected(name, cluster, term, choices),
        Stage::Selected => without_replicas(name, cluster, minimum, term),
        Stage::Placed => placed(name, cluster, term, request),
    }
}

fn not_selected(
    name: &str,
    cluster: &ClusterExplanation,
    term: &TermExplanation,
    choices: &Choices<'_>,
) -> String {
    for choice in &choices.0 {
        if choice.groups(name).any(|(_, group)| group.chosen) {
            continue;
        }
        if let Some((rank, group)) = choice.groups(name).next() {
            return not_chosen(choice, rank, group, cluster);
        }
    }
    match &term.failure {
        Some(_) => "passed the filters, but the placement failed".to_owned(),
        None => "passed the filters, but was not selected".to_owned(),
    }
}

fn not_chosen(
    ChoiceIndex { choice, chosen, .. }: &ChoiceIndex<'_>,
    rank: usize,
    group: &GroupExplanation,
    cluster: &ClusterExplanation,
) -> String {
    let bounds = match choice.max {
        Some(max) => format!("minGroups {}, maxGroups {max}", choice.min),
        None => format!("minGroups {}", choice.min),
    };
    if chosen.is_empty() {
        let formed = choice.groups.len();
        return format!(
            "the spread constraint by {} ({bounds}) cannot be satisfied with {formed} {}",
            choice.by,
            if formed == 1 { "group" } else { "groups" }
        );
    }
    let best = chosen.iter().map(|group| group.score).min().unwrap_or(0);
    if choice.by == "cluster" {
        let rank = rank + 1;
        let limit = match choice.max {
            Some(max) => format!("maxGroups of the spread constraint by cluster is {max}"),
            None => "the spread constraints need no more clusters".to_owned(),
        };
        let available = cluster.available.unwrap_or(0);
        let against = match group.score.cmp(&best) {
            Ordering::Less => format!("score {} is below {best}", group.score),
            Ordering::Equal => format!(
                "scores are equal, so the number of available replicas ({available}) decides, then the name"
            ),
            // The selection has replaced preferred clusters by clusters with more available replicas.
            Ordering::Greater => format!(
                "it has too few available replicas ({available}), although its score {} is above {best}",
                group.score
            ),
        };
        return format!("{limit}, and this cluster has rank {rank}: {against}");
    }
    let names: Vec<&str> = chosen.iter().map(|group| &*group.name).collect();
    format!(
        "its {} {} was not chosen ({bounds}): the group score is {}; chosen groups with {best} or more: {}",
        choice.by,
        group.name,
        group.score,
        names.join(", "),
    )
}

/// Returns the number of nodes that the pods exclude by labels and taints, as the end of a phrase.
fn excluded_nodes(minimum: &Minimum) -> String {
    match minimum.basis {
        Some(Basis::Nodes {
            matching, nodes, ..
        }) if matching < nodes => format!(
            ": {matching} of {nodes} nodes satisfy the node selector, node affinity and tolerations of the pods"
        ),
        _ => String::new(),
    }
}

fn without_replicas(
    name: &str,
    cluster: &ClusterExplanation,
    minimum: Option<&Minimum>,
    term: &TermExplanation,
) -> String {
    let Some(step) = divisions(term).next_back() else {
        return match &term.failure {
            Some(_) => match minimum {
                Some(minimum) => format!(
                    "selected; {} available replicas ({}{})",
                    minimum.replicas,
                    minimum.estimator,
                    excluded_nodes(minimum)
                ),
                None => "selected, but the replicas cannot be divided".to_owned(),
            },
            None => "selected, but got no replicas".to_owned(),
        };
    };
    let with_estimate = |text: &str| match minimum {
        Some(minimum) => format!(
            "{text} ({} estimates {}{})",
            minimum.estimator,
            minimum.replicas,
            excluded_nodes(minimum)
        ),
        None => text.to_owned(),
    };
    match (step.operation, share(step, name)) {
        (DivisionOperation::Keep, _) => {
            "other clusters hold all replicas already, and the number is unchanged".to_owned()
        }
        (DivisionOperation::Shrink, _) => {
            "the workload shrinks on the clusters that hold it".to_owned()
        }
        (DivisionOperation::Limit, share) => {
            let limit = share.and_then(|share| share.limit);
            limit.map_or_else(
                || format!("other clusters got all replicas, within {REPLICA_LIMITS}"),
                limit_reached,
            )
        }
        (_, Some(share)) if share.weight <= 0 => match step.weights {
            WeightBasis::Rules => "no static weight matches it".to_owned(),
            _ => with_estimate("no free capacity"),
        },
        (_, Some(share)) => format!(
            "its share of {} replicas is {:.2}, and other clusters got the remainder",
            step.replicas, share.exact
        ),
        (_, None) => match step.weights {
            WeightBasis::Rules => "no static weight matches it".to_owned(),
            _ if cluster.available == Some(0) => with_estimate("no free capacity"),
            _ => format!(
                "Aggregated needs {} for {} replicas, and others are preferred for their capacity or held replicas",
                match step.shares.len() {
                    1 => "1 cluster".to_owned(),
                    clusters => format!("{clusters} clusters"),
                },
                step.replicas
            ),
        },
    }
}

fn placed(
    name: &str,
    cluster: &ClusterExplanation,
    term: &TermExplanation,
    request: &Request,
) -> String {
    let with_share = |step: &&DivisionStep| share(step, name).is_some();
    let spread = term.division.iter().rev();
    let spread = spread
        .filter(|step| step.operation == DivisionOperation::Spread)
        .find_map(|step| share(step, name));
    if let Some(spread) = spread
        && !divisions(term).any(|step| share(step, name).is_some_and(|share| share.replicas > 0))
    {
        let count = replicas(spread.replicas);
        return format!("{count}, because minGroups asks for replicas in more groups");
    }
    let Some(step) = divisions(term).rev().find(with_share) else {
        if request.divides_replicas() {
            return match cluster.before {
                Some(before) => format!("keeps {}", replicas(before)),
                None => "selected".to_owned(),
            };
        }
        return "selected; every selected cluster gets a copy".to_owned();
    };
    let Some(share) = share(step, name) else {
        return "selected".to_owned();
    };
    match step.operation {
        DivisionOperation::Copy => format!("Duplicated: all {}", replicas(step.replicas)),
        DivisionOperation::Keep => format!(
            "keeps {}, because the number is unchanged",
            replicas(share.replicas)
        ),
        DivisionOperation::DivideAll | DivisionOperation::Spread => divided(step, share, "of"),
        DivisionOperation::Limit => within_limits(step, share, cluster.before),
        DivisionOperation::Shrink => divided(step, share, "of the remaining"),
        DivisionOperation::Add => {
            let of = if step.replicas == request.replicas() {
                "of"
            } else {
                "of the new"
            };
            let added = divided(step, share, of);
            match cluster.before {
                Some(before) if before > 0 => format!("holds {}, plus {added}", replicas(before)),
                _ => added,
            }
        }
    }
}

fn within_limits(step: &DivisionStep, share: &DividedShare, before: Option<i64>) -> String {
    let text = format!("{} of {}", share.replicas, replicas(step.replicas));
    let text = match before {
        Some(before) if before > 0 => format!("{text}, {before} before"),
        _ => text,
    };
    match share.limit {
        Some(limit) => format!("{text}: {}", limit_reached(limit)),
        None => format!("{text}, within {REPLICA_LIMITS}"),
    }
}

fn limit_reached(limit: LimitReached) -> String {
    match limit {
        LimitReached::AtLeast(min) => format!("at least {min} by {REPLICA_LIMITS}"),
        LimitReached::AtMost(max) => format!("at most {max} by {REPLICA_LIMITS}"),
    }
}

/// Returns the steps that divide or keep replicas, without the steps that move single replicas afterwards.
fn divisions(term: &TermExplanation) -> impl DoubleEndedIterator<Item = &DivisionStep> {
    let steps = term.division.iter();
    steps.filter(|step| step.operation != DivisionOperation::Spread)
}

fn divided(step: &DivisionStep, share: &DividedShare, of: &str) -> String {
    let weights: i128 = step
        .shares
        .iter()
        .map(|share| i128::from(share.weight))
        .sum();
    let basis = match step.weights {
        WeightBasis::Rules => "static weight",
        WeightBasis::Equal => "equal weight",
        WeightBasis::Free => "free capacity",
        WeightBasis::Available => "available capacity",
        WeightBasis::Held => "held replicas",
        WeightBasis::None => "weight",
    };
    let remainder = match share.remainder {
        0 => String::new(),
        remainder => {
            let rule = step
                .remainders
                .iter()
                .rev()
                .find(|remainder| remainder.cluster == share.cluster)
                .map(|remainder| match remainder.decided_by {
                    RemainderRule::Claim => "by the greatest claim",
                    RemainderRule::FewerReplicas => "by fewer replicas",
                    RemainderRule::Name => match step.ties {
                        TieBreak::FirstName => "by name, the first wins",
                        TieBreak::LastName => "by name, the last wins",
                    },
                });
            format!(
                ", rounded down to {} and {remainder:+} {}",
                share.floor,
                rule.unwrap_or("by the claims of others")
            )
        }
    };
    format!(
        "{} {of} {}: {basis} {} of {weights} is {:.2}{remainder}",
        share.replicas, step.replicas, share.weight, share.exact
    )
}

fn share<'a>(step: &'a DivisionStep, name: &str) -> Option<&'a DividedShare> {
    let index = step
        .shares
        .binary_search_by(|share| (*share.cluster).cmp(name))
        .ok();
    match index {
        Some(index) => step.shares.get(index),
        // The shares of a step that keeps replicas are in the order of the binding, so the binary search may miss the
        // cluster.
        None => step.shares.iter().find(|share| share.cluster == name),
    }
}

fn replicas(count: i64) -> String {
    match count {
        1 => "1 replica".to_owned(),
        count => format!("{count} replicas"),
    }
}
