//! [`SelectionExplanation`]: the explanation that the select plugin returns, with the groups of clusters that spread
//! constraints form, and the chosen groups.

use serde::{Deserialize, Serialize};

/// The explanation of a selection: the required capacity, and the choice for each spread constraint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectionExplanation {
    /// The total capacity that the selected clusters must have. Absent if the selection ignores capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_capacity: Option<i64>,
    /// The choices, one for each evaluated spread constraint, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<GroupChoice>,
}

/// The choice among groups of clusters. Clusters with the same value of one property form a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupChoice {
    /// The property by which clusters are grouped: `cluster`, `region`, `zone`, `provider`, or `label KEY`.
    pub by: String,
    /// The minimum number of groups.
    pub min: usize,
    /// The maximum number of groups. Absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// The groups, the most preferred group first.
    pub groups: Vec<GroupExplanation>,
}

/// A group of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupExplanation {
    /// The value of the property that the clusters of the group have.
    pub name: String,
    /// The names of the clusters, the most preferred cluster first.
    pub clusters: Vec<String>,
    /// The score of the group.
    pub score: i64,
    /// The number of replicas that the clusters can have in total, including their current replicas.
    pub available: i64,
    /// True if the group was chosen.
    pub chosen: bool,
}
