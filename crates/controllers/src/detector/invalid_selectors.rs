//! Selectors of a placement that match no cluster because they are not valid.
//!
//! They are stored, as in Karmada; the scheduler then finds no cluster, in Karmada's words, which do not
//! say what is wrong.

use berth_api::placement::{ClusterAffinity, Placement};
use berth_api::selector::{FieldSelector, LabelSelector};

/// What is wrong, each with its field.
pub(super) fn affinity_faults(placement: &Placement) -> Vec<String> {
    let mut faults = Vec::new();
    let mut look = |affinity: &ClusterAffinity, path: &str| {
        let labels = affinity.label_selector.as_ref();
        if let Some(Err(error)) = labels.map(LabelSelector::compile) {
            faults.push(format!(
                "spec.placement.{path}labelSelector matches nothing: {error}"
            ));
        }
        let fields = affinity.field_selector.as_ref();
        if let Some(Err(error)) = fields.map(FieldSelector::compile) {
            faults.push(format!(
                "spec.placement.{path}fieldSelector matches nothing: {error}"
            ));
        }
    };
    if let Some(affinity) = &placement.cluster_affinity {
        look(affinity, "clusterAffinity.");
    }
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        look(&term.affinity, &format!("clusterAffinities[{index}]."));
        for (tier, overflow) in term.overflow_affinities.iter().enumerate() {
            look(
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
        look(
            &weight.target_cluster,
            &format!("replicaScheduling.weightPreference.staticWeightList[{index}].targetCluster."),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_is_named() {
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
            let faults = affinity_faults(&parsed);
            assert_eq!(faults.len(), paths.len(), "{placement}: {faults:?}");
            for (fault, path) in faults.iter().zip(paths) {
                let start = format!("spec.placement.{path}labelSelector matches nothing: ");
                assert!(
                    fault.starts_with(&start) && fault.contains("Near"),
                    "{fault}"
                );
            }
        }
    }
}
