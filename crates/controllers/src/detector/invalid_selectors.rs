//! A check for invalid cluster selectors in placements.
//!
//! As in Karmada, a policy with an invalid cluster selector is accepted, and the selector matches no cluster. The
//! scheduler's message does not name the cause, so the detector records an event with the cause.

use berth_api::field_selector::FieldSelector;
use berth_api::label_selector::LabelSelector;
use berth_api::placement::{ClusterAffinity, Placement};

/// Returns an error for each invalid selector. The error contains the field of the selector.
pub(super) fn invalid_cluster_selectors(placement: &Placement) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |affinity: &ClusterAffinity, path: &str| {
        let labels = affinity.label_selector.as_ref();
        if let Some(Err(error)) = labels.map(LabelSelector::compile) {
            errors.push(format!(
                "spec.placement.{path}labelSelector matches nothing: {error}"
            ));
        }
        let fields = affinity.field_selector.as_ref();
        if let Some(Err(error)) = fields.map(FieldSelector::compile) {
            errors.push(format!(
                "spec.placement.{path}fieldSelector matches nothing: {error}"
            ));
        }
    };
    if let Some(affinity) = &placement.cluster_affinity {
        check(affinity, "clusterAffinity.");
    }
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        check(&term.affinity, &format!("clusterAffinities[{index}]."));
        for (tier, overflow) in term.overflow_affinities.iter().enumerate() {
            check(
                &overflow.affinity,
                &format!("clusterAffinities[{index}].overflowAffinities[{tier}]."),
            );
        }
    }
    let weights = placement
        .replica_scheduling
        .as_ref()
        .and_then(|scheduling| scheduling.weight_preference.as_ref())
        .map(|preference| preference.static_weight_list.as_slice())
        .unwrap_or_default();
    for (index, weight) in weights.iter().enumerate() {
        check(
            &weight.target_cluster,
            &format!("replicaScheduling.weightPreference.staticWeightList[{index}].targetCluster."),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_invalid_selector_is_named() {
        let bad = json!({ "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Near" }] } });
        let term = |name: &str, more: serde_json::Value| {
            let mut term = bad.clone();
            term["affinityName"] = json!(name);
            term["overflowAffinities"] = more;
            term
        };
        let cases = [
            (json!({ "clusterAffinity": bad }), vec!["clusterAffinity."]),
            (
                json!({ "clusterAffinities": [term("x", json!([term("y", json!(null))]))] }),
                vec![
                    "clusterAffinities[0].",
                    "clusterAffinities[0].overflowAffinities[0].",
                ],
            ),
            (
                json!({ "replicaScheduling": { "weightPreference": { "staticWeightList": [
                    { "targetCluster": bad, "weight": 1 }] } } }),
                vec!["replicaScheduling.weightPreference.staticWeightList[0].targetCluster."],
            ),
            (
                json!({ "clusterAffinity": { "labelSelector": {} } }),
                vec![],
            ),
        ];
        for (placement, paths) in cases {
            let parsed: Placement = serde_json::from_value(placement.clone()).unwrap();
            let errors = invalid_cluster_selectors(&parsed);
            assert_eq!(errors.len(), paths.len(), "{placement}: {errors:?}");
            for (error, path) in errors.iter().zip(paths) {
                let start = format!("spec.placement.{path}labelSelector matches nothing: ");
                assert!(
                    error.starts_with(&start) && error.contains("Near"),
                    "{error}"
                );
            }
        }
    }
}
