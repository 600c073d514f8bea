//! The explanation that a Select plugin gives: which clusters or groups it chose, and by which rule.

use serde::{Deserialize, Serialize};

/// The explanation of a selection: the required capacity, and the choice by each constraint in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectionExplanation {
    /// The total capacity that the selected clusters must have; absent if capacity is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_capacity: Option<i64>,
    /// The choices, one for each constraint that was evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<GroupChoice>,
}

/// The choice among the groups that one property forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupChoice {
    /// The property: `cluster`, `region`, `zone`, `provider`, or `label KEY`.
    pub by: String,
    /// The minimum number of groups.
    pub min: usize,
    /// The maximum number of groups; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// The groups, the most preferred ones first.
    pub groups: Vec<GroupExplanation>,
}

/// A group of clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupExplanation {
    /// The value of the property.
    pub name: String,
    /// The clusters, the most preferred ones first.
    pub clusters: Vec<String>,
    /// The score of the group.
    pub score: i64,
    /// The capacity of its clusters, including the held replicas.
    pub available: i64,
    /// True if the group was chosen.
    pub chosen: bool,
}
