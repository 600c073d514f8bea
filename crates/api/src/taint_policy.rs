//! ClusterTaintPolicy, which adds taints to clusters and removes taints, depending on the conditions of the clusters.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::condition;
use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::placement::ClusterAffinity;

/// The clusters, the conditions and the taints.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterTaintPolicy",
    doc = "Taints clusters by their conditions. The taints remain when the policy is deleted.",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicySpec {
    /// The clusters; absent means all. A cluster that no longer matches keeps its taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
    /// The conditions that add the taints when all of them match; an empty list never matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// The conditions that remove the taints when all of them match; an empty list never matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// The taints.
    #[schemars(length(min = 1))]
    pub taints: Vec<PolicyTaint>,
}

/// A requirement on a condition of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// The type of the condition; a cluster without it does not match.
    pub condition_type: String,
    /// `In` or `NotIn`.
    #[schemars(with = "String")]
    pub operator: MatchOperator,
    /// `True`, `False`, `Unknown`.
    pub status_values: Vec<String>,
}

open_enum! {
    /// The comparison with the status of a condition.
    pub enum MatchOperator {
        /// The status is one of the values.
        In = "In",
        /// The status is none of the values.
        NotIn = "NotIn",
    }
}

/// A taint that the policy adds and removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTaint {
    /// The taint key.
    pub key: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// The taint value.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub value: Option<String>,
}

impl ClusterTaintPolicySpec {
    /// Reports whether the policy targets this cluster.
    pub fn targets(&self, cluster: &Cluster) -> bool {
        let targets = self.target_clusters.as_ref();
        targets.is_none_or(|targets| targets.matches(cluster))
    }
}

/// Reports whether a cluster matches all conditions. An empty list of conditions never matches.
pub fn all_match(conditions: &[MatchCondition], cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let present = status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let matches = |wanted: &MatchCondition| {
        let found = condition::find(present, &wanted.condition_type);
        found.is_some_and(|found| {
            let listed = wanted.status_values.contains(&found.status);
            match wanted.operator {
                MatchOperator::In => listed,
                MatchOperator::NotIn => !listed,
                MatchOperator::Other(_) => false,
            }
        })
    };
    !conditions.is_empty() && conditions.iter().all(matches)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn all_conditions_must_match_and_an_empty_list_never_matches() {
        let condition = |kind: &str, status: &str| {
            json!({ "type": kind, "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" },
            "status": { "conditions": [condition("Ready", "False"), condition("Disk", "True")] } }))
        .unwrap();
        let wanted = |kind: &str, operator: &str, values: &[&str]| json!({ "conditionType": kind, "operator": operator, "statusValues": values });
        for (about, conditions, expected) in [
            ("none", vec![], false),
            (
                "in",
                vec![wanted("Ready", "In", &["False", "Unknown"])],
                true,
            ),
            ("not in", vec![wanted("Ready", "NotIn", &["True"])], true),
            ("not listed", vec![wanted("Ready", "In", &["True"])], false),
            (
                "both",
                vec![
                    wanted("Ready", "In", &["False"]),
                    wanted("Disk", "In", &["True"]),
                ],
                true,
            ),
            (
                "one of two",
                vec![
                    wanted("Ready", "In", &["False"]),
                    wanted("Disk", "In", &["False"]),
                ],
                false,
            ),
            (
                "missing condition",
                vec![wanted("Memory", "NotIn", &["True"])],
                false,
            ),
            (
                "unknown operator",
                vec![wanted("Ready", "Like", &["False"])],
                false,
            ),
        ] {
            let conditions: Vec<MatchCondition> =
                serde_json::from_value(Value::from(conditions)).unwrap();
            assert_eq!(all_match(&conditions, &cluster), expected, "{about}");
        }
    }
}
