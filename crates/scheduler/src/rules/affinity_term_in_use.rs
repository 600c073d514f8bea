//! The affinity term that a binding uses, for a binding whose last status write may have been lost.
//!
//! An affinity term is an entry of `clusterAffinities`. To move a binding to another term, the scheduler writes first
//! the spec and then the status. If the process ends between the two writes, the spec contains the clusters of the new
//! term, but the status still names the old term. Without a correction, the next decision would start with the old
//! term.

use std::sync::Arc;

use berth_api::placement::{ClusterAffinityTerm, Placement};
use berth_api::{Binding, Cluster};
use berth_engine::CompiledAffinity;

/// Returns the name of the term that the status should contain, or `None` if the status needs no correction. `cluster`
/// looks up clusters by name.
pub(crate) fn affinity_term_in_use(
    binding: &Binding,
    placement: &Placement,
    cluster: impl Fn(&str) -> Option<Arc<Cluster>>,
) -> Option<String> {
    let (status, targets) = (&binding.status, &binding.spec.clusters);
    let terms = &placement.cluster_affinities;
    // The write of a result increments the generation. If the status contains the current generation, no status write
    // was lost.
    if terms.is_empty()
        || targets.is_empty()
        || status.scheduler_observed_generation == Some(binding.generation())
    {
        return None;
    }
    let targets: Vec<Arc<Cluster>> = targets
        .iter()
        .map(|target| cluster(&target.name))
        .collect::<Option<_>>()?;
    let with_overflow = binding.spec.is_workload();
    let selects_all = |term: &ClusterAffinityTerm| {
        let overflow = term.overflow_affinities.iter().filter(|_| with_overflow);
        let affinities: Vec<CompiledAffinity> = std::iter::once(&term.affinity)
            .chain(overflow.map(|tier| &tier.affinity))
            .map(CompiledAffinity::new)
            .collect();
        targets
            .iter()
            .all(|target| affinities.iter().any(|affinity| affinity.matches(target)))
    };
    let observed = status.scheduler_observing_affinity_name.as_deref();
    let index = terms
        .iter()
        .position(|term| Some(term.affinity_name.as_str()) == observed);
    // A decision tries the terms from the term in the status to the last term, and then from the first term.
    let (earlier, later) = terms.split_at(index.unwrap_or(0));
    let term = later.iter().chain(earlier).find(|term| selects_all(term))?;
    (Some(term.affinity_name.as_str()) != observed).then(|| term.affinity_name.clone())
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    /// Checks the correction for a binding on these clusters. The placement has three terms: a (m1), b (m2), and c (m2,
    /// m3) with the overflow affinity d (m4).
    #[track_caller]
    fn case(clusters: &[&str], status: Value, expected: Option<&str>) {
        let targets: Vec<Value> = clusters
            .iter()
            .map(|name| json!({ "name": name, "replicas": 1 }))
            .collect();
        let binding: Binding = serde_json::from_value::<ResourceBinding>(json!({
            "metadata": { "name": "b", "namespace": "n", "generation": 3 },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
                "replicas": 1, "clusters": targets,
                "placement": { "clusterAffinities": [
                    { "affinityName": "a", "clusterNames": ["m1"] },
                    { "affinityName": "b", "clusterNames": ["m2"] },
                    { "affinityName": "c", "clusterNames": ["m2", "m3"], "overflowAffinities": [
                        { "affinityName": "d", "clusterNames": ["m4"] }] },
                ] },
            },
            "status": status,
        }))
        .unwrap()
        .into();
        let placement = binding.spec.placement.clone().unwrap();
        let known = |name: &str| {
            (name != "gone").then(|| {
                Arc::new(
                    serde_json::from_value(json!({
                        "metadata": { "name": name }, "spec": { "syncMode": "Push" } }))
                    .unwrap(),
                )
            })
        };
        let term = affinity_term_in_use(&binding, &placement, known);
        assert_eq!(term.as_deref(), expected, "{clusters:?} {status}");
    }

    #[test]
    fn only_a_lost_status_is_corrected() {
        let observing = |term: &str, generation: i64| {
            json!({ "schedulerObservingAffinityName": term,
                "schedulerObservedGeneration": generation })
        };
        // The spec was written for the move from a to b, but the status write was lost.
        case(&["m2"], observing("a", 2), Some("b"));
        // The status contains the generation of the result, so the status write was not lost.
        case(&["m2"], observing("a", 3), None);
        // Another edit incremented the generation. The term in the status still selects the clusters.
        case(&["m1"], observing("a", 2), None);
        case(&["m2"], observing("c", 2), None);
        // Terms after the term in the status are tried first. A term also selects the clusters of its overflow
        // affinities.
        case(&["m3", "m4"], observing("a", 2), Some("c"));
        case(&["m1"], observing("b", 2), Some("a"));
        case(&["m2"], json!({}), Some("b"));
        // No term selects all clusters, or a cluster is unknown.
        case(&["m1", "m2"], observing("a", 2), None);
        case(&["gone"], observing("a", 2), None);
        case(&[], observing("a", 2), None);
    }
}
