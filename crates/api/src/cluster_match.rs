//! [`ClusterAffinity::matches`] and [`Placement::selects`] for one Cluster object. The scheduling engine
//! calls neither. It compiles each affinity once.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::placement::{ClusterAffinity, ClusterAffinityTerm, Placement};

impl Placement {
    /// Reports whether one of the affinities, overflow affinities included, selects a cluster. A placement without an
    /// affinity selects all clusters.
    pub fn selects(&self, cluster: &Cluster) -> bool {
        if self.cluster_affinities.is_empty() {
            let affinity = self.cluster_affinity.as_ref();
            return affinity.is_none_or(|affinity| affinity.matches(cluster));
        }
        let mut terms = self.cluster_affinities.iter();
        terms.any(|term| term.selects(cluster))
    }
}

impl ClusterAffinityTerm {
    /// Reports whether the affinity of the term, or one of its overflow affinities, selects a cluster.
    pub fn selects(&self, cluster: &Cluster) -> bool {
        let mut overflow = self.overflow_affinities.iter();
        self.affinity.matches(cluster) || overflow.any(|term| term.affinity.matches(cluster))
    }
}

impl ClusterAffinity {
    /// Reports whether a cluster matches all fields that the affinity sets. An affinity with an invalid selector
    /// matches no cluster.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let named = |names: &[String]| names.iter().any(|wanted| wanted == name);
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
        let by_labels = self.label_selector.as_ref().is_none_or(|selector| {
            let selector = selector.compile();
            selector.is_ok_and(|selector| selector.matches(labels))
        });
        let by_fields = self.field_selector.as_ref().is_none_or(|selector| {
            let spec = &cluster.spec;
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            selector.compile().is_ok_and(|selector| {
                selector.matches(&text(&spec.provider), &text(&spec.region), &spec.zones)
            })
        });
        !named(&self.exclude_clusters)
            && by_labels
            && by_fields
            && (self.cluster_names.is_empty() || named(&self.cluster_names))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_fields_of_an_affinity_must_match() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": "m1", "labels": {"env": "prod"}},
            "spec": {"syncMode": "Push", "region": "eu"}}))
        .unwrap();
        for (affinity, expected) in [
            (json!({}), true),
            (json!({"clusterNames": ["m1", "m2"]}), true),
            (json!({"clusterNames": ["m2"]}), false),
            (json!({"clusterNames": ["m1"], "exclude": ["m1"]}), false),
            (
                json!({"labelSelector": {"matchLabels": {"env": "prod"}}}),
                true,
            ),
            (
                json!({"labelSelector": {"matchLabels": {"env": "no prod"}}}),
                false,
            ),
            (
                json!({"fieldSelector": {"matchExpressions": [
                {"key": "region", "operator": "In", "values": ["eu"]}]}}),
                true,
            ),
            (
                json!({"fieldSelector": {"matchExpressions": [
                {"key": "region", "operator": "NotIn", "values": ["eu"]}]}}),
                false,
            ),
        ] {
            let parsed: ClusterAffinity = serde_json::from_value(affinity.clone()).unwrap();
            assert_eq!(parsed.matches(&cluster), expected, "{affinity}");
        }
    }
}
