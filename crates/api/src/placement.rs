//! Placement: which clusters, and how many replicas in each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::selector::{FieldSelector, LabelSelector};
use crate::toleration::Toleration;

/// The rule for selecting clusters to propagate resources to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Restricts the clusters; exclusive with `clusterAffinities`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Ordered groups of clusters; the scheduler uses the first that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Taints of clusters that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How the selected clusters are spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are dealt with; absent means that every cluster gets all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// Keeps workloads of a group together, or apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

impl Placement {
    /// The scheduling type that applies: a missing `replicaScheduling` means Duplicated, and so does
    /// nothing else: the value is returned as written, which may be empty.
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
}

/// A filter over clusters. All parts that are given must hold; an empty affinity matches every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Over the labels of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Over provider, region and zones of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// The clusters to choose from; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Clusters that are never chosen.
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
    /// Ordered groups that take the replicas which the primary clusters cannot hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowAffinityTerm>,
}

/// A group of clusters that takes what its predecessors cannot hold.
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
    /// The most groups to use; 0 or absent means no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "integer")]
    pub max_groups: i64,
    /// The fewest groups to use.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "integer")]
    pub min_groups: i64,
}

open_enum! {
    /// The fields that a [`SpreadConstraint`] can group by.
    pub enum SpreadField {
        /// Each cluster is its own group.
        Cluster = "cluster",
        /// By `spec.region`.
        Region = "region",
        /// By `spec.zones`.
        Zone = "zone",
        /// By `spec.provider`.
        Provider = "provider",
    }
}

/// How the replicas of a workload are dealt out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaScheduling {
    /// Whether each cluster gets all replicas or a share.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// How shares are found, for `Divided`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// The weights, for `Weighted`; absent means equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

open_enum! {
    /// Whether each cluster gets all replicas or a share.
    pub enum ReplicaSchedulingType {
        /// Every cluster gets all replicas.
        Duplicated = "Duplicated",
        /// The clusters share the replicas.
        Divided = "Divided",
    }
}

open_enum! {
    /// How divided replicas are shared.
    pub enum ReplicaDivisionPreference {
        /// Into as few clusters as possible.
        Aggregated = "Aggregated",
        /// By the weights of [`ClusterPreferences`].
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
    /// Weights taken from the clusters; wins over the static list.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
}

/// The weight of the clusters that an affinity matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// Their weight, at least 1.
    #[schemars(range(min = 1))]
    pub weight: i64,
}

open_enum! {
    /// Where dynamic weights come from.
    pub enum DynamicWeightFactor {
        /// The number of replicas that the cluster can take.
        AvailableReplicas = "AvailableReplicas",
    }
}

/// Inter-workload affinity and anti-affinity (alpha).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Workloads of the same group go to the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadGroupTerm>,
    /// Workloads of the same group go to different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadGroupTerm>,
}

/// Names the label of the template whose value is the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadGroupTerm {
    /// The label key.
    pub group_by_label_key: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A Go `int`: no format, no bounds; the admission rules refuse negative numbers.
fn integer(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer" })
}
