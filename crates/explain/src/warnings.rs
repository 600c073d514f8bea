//! Warnings about a successful decision that does not do what the placement asks for: Karmada decides like this, and a
//! feature gate changes it, or the limits of the binding allow it.

use std::collections::BTreeSet;

use berth_api::well_known::REPLICA_LIMITS;
use berth_engine::{Explanation, Outcome, Request};

/// Returns the warnings about a decision, one line each.
pub fn warnings(request: &Request, outcome: &Outcome, explanation: &Explanation) -> Vec<String> {
    let (Ok(placement), Some(term)) = (&outcome.result, explanation.terms.last()) else {
        return Vec::new();
    };
    if !request.divides_replicas() || request.placement().duplicates() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if placement.waiting > 0 {
        let (waiting, replicas) = (placement.waiting, request.replicas());
        lines.push(format!(
            "{waiting} of {replicas} replicas wait for room, as {REPLICA_LIMITS} allows"
        ));
    }
    let with_replicas: BTreeSet<&str> = placement
        .targets
        .iter()
        .filter(|target| target.replicas > 0)
        .map(|target| &*target.name)
        .collect();
    let choices = term
        .selection
        .iter()
        .flat_map(|selection| &selection.choices);
    for choice in choices {
        let groups = choice.groups.iter().filter(|group| {
            let mut clusters = group.clusters.iter();
            clusters.any(|cluster| with_replicas.contains(cluster.as_str()))
        });
        let (groups, min) = (groups.count(), choice.min);
        if groups >= min || request.replicas() == 0 {
            continue;
        }
        let by = &choice.by;
        let replicas = usize::try_from(request.replicas()).unwrap_or(usize::MAX);
        lines.push(if replicas <= groups {
            format!("spread by {by}: minGroups {min} asks for {min} groups, but the workload has fewer replicas")
        } else {
            format!(
                "spread by {by}: minGroups {min} asks for {min} groups, the division leaves {groups}; the feature gate \
                 MinGroupsInDivision divides the replicas among enough groups"
            )
        });
    }
    for (name, cluster) in term.clusters.iter().filter(|(_, cluster)| cluster.spared) {
        let added = cluster.replicas.unwrap_or(0) - cluster.before.unwrap_or(0);
        if added > 0 {
            lines.push(format!(
                "{name} gets {added} more replicas, although it has a taint that the placement does not tolerate; the \
                 feature gate NoScaleUpOnTaints places them elsewhere"
            ));
        }
    }
    lines
}
