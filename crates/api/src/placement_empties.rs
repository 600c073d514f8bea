//! Placements as a Go program holds them: an optional string that is empty is not there.
//!
//! Go's encoder leaves such values out, so the text of an applied placement never has them, even where the
//! stored binding does.

use crate::placement::Placement;

impl Placement {
    /// Takes out what Go would not write.
    pub fn drop_empties(&mut self) {
        for toleration in &mut self.cluster_tolerations {
            for text in [
                &mut toleration.key,
                &mut toleration.operator,
                &mut toleration.value,
                &mut toleration.effect,
            ] {
                drop_if(text, String::is_empty);
            }
        }
        for constraint in &mut self.spread_constraints {
            drop_if(&mut constraint.spread_by_field, |f| f.as_str().is_empty());
            drop_if(&mut constraint.spread_by_label, String::is_empty);
        }
        if let Some(scheduling) = &mut self.replica_scheduling {
            drop_if(&mut scheduling.replica_scheduling_type, |t| {
                t.as_str().is_empty()
            });
            drop_if(&mut scheduling.replica_division_preference, |p| {
                p.as_str().is_empty()
            });
            if let Some(preference) = &mut scheduling.weight_preference {
                drop_if(&mut preference.dynamic_weight, |w| w.as_str().is_empty());
            }
        }
    }
}

fn drop_if<T>(value: &mut Option<T>, is_empty: impl Fn(&T) -> bool) {
    if value.as_ref().is_some_and(is_empty) {
        *value = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_values_go_and_empty_structures_stay() {
        let mut placement: Placement = serde_json::from_value(json!({
            "clusterAffinity": { "labelSelector": { "matchLabels": {}, "matchExpressions": [] } },
            "clusterTolerations": [{ "key": "", "operator": "Exists", "value": "", "effect": "" }],
            "spreadConstraints": [{ "spreadByLabel": "", "spreadByField": "cluster" }],
            "replicaScheduling": { "replicaSchedulingType": "", "weightPreference": {
                "dynamicWeight": "" } },
        }))
        .unwrap();
        placement.drop_empties();
        assert_eq!(
            serde_json::to_value(&placement).unwrap(),
            json!({
                "clusterAffinity": { "labelSelector": {} },
                "clusterTolerations": [{ "operator": "Exists" }],
                "spreadConstraints": [{ "spreadByField": "cluster" }],
                "replicaScheduling": { "weightPreference": {} },
            })
        );
    }
}
