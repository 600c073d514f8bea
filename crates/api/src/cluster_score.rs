//! The kind ClusterScore, with which any program reports numbers about a member cluster, such as its cost or its carbon
//! intensity. The kind is Berth's own. It follows AddOnPlacementScore of Open Cluster Management.
//!
//! An object contains the scores that one program writes about one cluster, so programs do not overwrite each other.
//! [`ClusterScores`] combines the objects about a cluster.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies public structs into functions"
)]

mod combined;

use std::collections::BTreeMap;

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use self::combined::{ClusterScores, ScoreEntry, ScoreState};

/// The scores that one program reports about one cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "scheduling.berth",
    version = "v1alpha1",
    kind = "ClusterScore",
    doc = "Numbers about a member cluster, such as its cost, that a program reports to the scheduler.",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "The cluster that the scores describe."
    ),
    printcolumn(
        name = "Scores",
        type_ = "string",
        json_path = ".spec.scores",
        description = "The scores by name."
    ),
    printcolumn(
        name = "Valid-Until",
        type_ = "string",
        json_path = ".spec.validUntil",
        description = "The time after which the scores count as absent."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.timestamp) || !has(self.validUntil) || self.validUntil > self.timestamp")
    .message("validUntil must be after timestamp")
    .field_path(".validUntil"))]
pub struct ClusterScoreSpec {
    /// The name of the cluster that the scores describe.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_name: String,
    /// The scores by name. Their scale is up to the program that writes them and the expressions that read them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 64))]
    pub scores: BTreeMap<String, f64>,
    /// The time at which the program measured the scores. Without it, the time of the last change of the object counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    /// The time after which the scores count as absent. Without it, they do not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

impl ClusterScore {
    /// Returns the object with only its name and its spec. A missing `timestamp` is filled in. Times are cut to whole
    /// seconds, as in the serialized object.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let spec = ClusterScoreSpec {
            timestamp: self.measured_at().map(|time| Time(whole_seconds(time.0))),
            valid_until: self
                .spec
                .valid_until
                .as_ref()
                .map(|time| Time(whole_seconds(time.0))),
            ..self.spec.clone()
        };
        let metadata = ObjectMeta {
            name: self.metadata.name.clone(),
            ..ObjectMeta::default()
        };
        Self { metadata, spec }
    }

    /// Returns the `timestamp`, or else the time of the last change of the object, or else of its creation.
    fn measured_at(&self) -> Option<&Time> {
        let metadata = &self.metadata;
        let changes = metadata.managed_fields.iter().flatten();
        let last_change = changes.filter_map(|fields| fields.time.as_ref()).max();
        let times = [
            self.spec.timestamp.as_ref(),
            last_change,
            metadata.creation_timestamp.as_ref(),
        ];
        times.into_iter().flatten().next()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_time_of_the_scores_is_their_timestamp_or_the_last_change() {
        let changed = json!([
            { "manager": "a", "time": "2026-01-01T00:00:02Z" }, { "manager": "b", "time": "2026-01-01T00:00:03Z" },
            { "manager": "c" },
        ]);
        for (timestamp, managed_fields, expected) in [
            (
                json!("2026-01-01T00:00:04.9Z"),
                changed.clone(),
                "2026-01-01T00:00:04Z",
            ),
            (json!(null), changed, "2026-01-01T00:00:03Z"),
            (json!(null), json!([]), "2026-01-01T00:00:01Z"),
        ] {
            let object: ClusterScore = serde_json::from_value(json!({
                "apiVersion": "scheduling.berth/v1alpha1", "kind": "ClusterScore",
                "metadata": { "name": "carbon-m1", "creationTimestamp": "2026-01-01T00:00:01Z",
                    "managedFields": managed_fields, "labels": { "a": "b" } },
                "spec": { "clusterName": "m1", "scores": { "carbon": 120 }, "timestamp": timestamp },
            }))
            .unwrap();
            let normalized = serde_json::to_value(object.normalized()).unwrap();
            assert_eq!(normalized["spec"]["timestamp"], expected);
            assert_eq!(normalized["metadata"], json!({ "name": "carbon-m1" }));
        }
    }
}
