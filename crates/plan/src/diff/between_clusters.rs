//! The fields whose wanted values differ between the clusters of a binding.

use berth_apimachinery::field_changes::field_variations;
use berth_controllers::propagation::difference::content;
use serde_json::Value;

use super::report::{Variation, VariationValue};
use super::wanted::ClusterWork;

/// Returns the fields whose wanted values differ between the clusters. One cluster has no differences.
pub(super) fn between_clusters(works: &[ClusterWork]) -> Vec<Variation> {
    let wanted: Vec<(&str, Value)> = works
        .iter()
        .filter_map(|work| Some((work.cluster.as_str(), content(work.manifest()?))))
        .collect();
    variations(&wanted)
}

fn variations(wanted: &[(&str, Value)]) -> Vec<Variation> {
    let manifests: Vec<&Value> = wanted.iter().map(|(_, manifest)| manifest).collect();
    let variations = field_variations(&manifests).into_iter();
    let variations = variations.map(|variation| {
        let mut values: Vec<VariationValue> = Vec::new();
        for ((cluster, _), value) in wanted.iter().zip(variation.values) {
            match values.iter_mut().find(|known| known.value == value) {
                Some(known) => known.clusters.push((*cluster).to_owned()),
                None => values.push(VariationValue {
                    value,
                    clusters: vec![(*cluster).to_owned()],
                }),
            }
        }
        Variation {
            field: variation.field,
            values,
        }
    });
    variations.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_with_equal_values_share_a_row() {
        let wanted = [
            ("a", json!({"spec": {"replicas": 3}})),
            ("b", json!({"spec": {"replicas": 2}})),
            ("c", json!({"spec": {"replicas": 3}})),
        ];
        let found = serde_json::to_value(variations(&wanted)).unwrap();
        assert_eq!(
            found,
            json!([{"field": "spec.replicas", "values": [
                {"value": 3, "clusters": ["a", "c"]}, {"value": 2, "clusters": ["b"]}]}])
        );
        assert_eq!(variations(&wanted[..1]), []);
    }
}
