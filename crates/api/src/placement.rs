//! Placement: the rules by which the scheduler selects clusters and assigns replicas.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies public structs into functions"
)]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field_schema;
use crate::field_selector::FieldSelector;
use crate::go_zero::is_go_zero;
use crate::label_selector::LabelSelector;
use crate::open_enum::open_enum;
use crate::toleration::Toleration;

/// The rules by which the scheduler selects clusters and assigns replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.clusterAffinity) && has(self.clusterAffinities) && size(self.clusterAffinities) > 0)")
    .message("clusterAffinities cannot co-exist with clusterAffinity"))]
pub struct Placement {
    /// Restricts the clusters; exclusive with `clusterAffinities`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Ordered groups of clusters; the scheduler uses the first that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// The taints of clusters that the workload tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// The spread over groups of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// The assignment of replicas; if absent, every cluster gets all replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// Keeps workloads of a group together or apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

impl Placement {
    /// Returns the effective scheduling type. The type is `Duplicated` if `replicaScheduling` is absent. The type is
    /// empty if `replicaScheduling` declares no type.
    pub fn scheduling_type(&self) -> ReplicaSchedulingType {
        self.replica_scheduling
            .as_ref()
            .map_or(ReplicaSchedulingType::Duplicated, |scheduling| {
                scheduling
                    .replica_scheduling_type
                    .clone()
                    .unwrap_or_else(|| ReplicaSchedulingType::Other(String::new()))
            })
    }

    /// Removes empty optional strings. Go's encoder omits such strings, so the applied-placement annotation never
    /// contains one.
    pub fn drop_empty_strings(&mut self) {
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

/// A filter over clusters. All given parts must match; an empty affinity matches every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// A selector over the labels of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// A selector over provider, region and zones of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// The eligible clusters; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// The clusters to exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "exclude")]
    pub exclude_clusters: Vec<String>,
}

/// One of the ordered groups of `clusterAffinities`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// The name of the group, unique in the policy.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Ordered groups for the replicas that do not fit into the primary clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinityTerm>,
}

/// A group of clusters for replicas that do not fit into the preceding groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverflowAffinityTerm {
    /// The name of the group, unique in its term.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

/// Groups the candidate clusters by a field or label, and bounds the number of groups used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// The field to group by; exclusive with `spreadByLabel`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub spread_by_field: Option<SpreadField>,
    /// The label key to group by; exclusive with `spreadByField`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub spread_by_label: Option<String>,
    /// The maximum number of groups; 0 means no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(
        schema_with = "field_schema::integer",
        range(min = 0),
        extend("x-policy-only" = ["minimum"])
    )]
    pub max_groups: i64,
    /// The minimum number of groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    // The schema can set this default, because the default does not depend on other fields.
    #[schemars(
        schema_with = "field_schema::integer",
        range(min = 0),
        extend("default" = 1, "x-policy-only" = ["default", "minimum"])
    )]
    pub min_groups: i64,
}

open_enum! {
    /// The fields that a [`SpreadConstraint`] can group by.
    pub enum SpreadField {
        /// Each cluster is its own group.
        Cluster = "cluster",
        /// Groups clusters by `spec.region`.
        Region = "region",
        /// Groups clusters by `spec.zones`.
        Zone = "zone",
        /// Groups clusters by `spec.provider`.
        Provider = "provider",
    }
}

/// The assignment of replicas to the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaScheduling {
    /// `Duplicated` gives a cluster all replicas, and `Divided` gives it a share.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// The method of dividing replicas.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// The weights of `Weighted`; absent means equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

open_enum! {
    /// The way in which clusters get replicas.
    pub enum ReplicaSchedulingType {
        /// Every cluster gets all replicas.
        Duplicated = "Duplicated",
        /// The clusters divide the replicas among themselves.
        Divided = "Divided",
    }
}

open_enum! {
    /// The method of dividing replicas.
    pub enum ReplicaDivisionPreference {
        /// Uses as few clusters as possible.
        Aggregated = "Aggregated",
        /// Divides by the weights of [`ClusterPreferences`].
        Weighted = "Weighted",
    }
}

/// Weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Fixed weights by cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// Weights derived from the clusters; takes precedence over the static list.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
}

/// The weight of each cluster that an affinity matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// The weight, at least 1.
    #[schemars(range(min = 1))]
    pub weight: i64,
}

open_enum! {
    /// The source of dynamic weights.
    pub enum DynamicWeightFactor {
        /// The number of replicas that the cluster has capacity for.
        AvailableReplicas = "AvailableReplicas",
    }
}

/// Inter-workload affinity and anti-affinity (alpha).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.affinity) || !has(self.antiAffinity) || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey")
    .message("affinity and antiAffinity must not use the same groupByLabelKey"))]
pub struct WorkloadAffinity {
    /// Workloads of the same group go to the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadGroupTerm>,
    /// Workloads of the same group go to different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadGroupTerm>,
}

/// The label of the template whose value names the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadGroupTerm {
    /// The label key.
    pub group_by_label_key: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
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
    fn empty_strings_are_dropped_and_empty_structs_kept() {
        let mut placement: Placement = serde_json::from_value(json!({
            "clusterAffinity": { "labelSelector": { "matchLabels": {}, "matchExpressions": [] } },
            "clusterTolerations": [{ "key": "", "operator": "Exists", "value": "", "effect": "" }],
            "spreadConstraints": [{ "spreadByLabel": "", "spreadByField": "cluster" }],
            "replicaScheduling": { "replicaSchedulingType": "", "weightPreference": {
                "dynamicWeight": "" } },
        }))
        .unwrap();
        placement.drop_empty_strings();
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
