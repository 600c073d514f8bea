//! A record of the newest differences between this scheduler's decisions and another scheduler's decisions, for
//! `/debug/shadow`.
//!
//! Shadow mode adds differences to the record, and the HTTP server reads them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::binding::TargetCluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;

use crate::debug_api::API_VERSION;

/// HTTP path of the record.
pub(crate) const SHADOW_PATH: &str = "/debug/shadow";

/// Maximum number of differences in the record. A difference may contain two lists of all clusters.
const LIMIT: usize = 100;

/// A bounded record of differences. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differences(Arc<Mutex<VecDeque<Arc<Difference>>>>);

/// Two different decisions about the same state of a binding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// `NAMESPACE/NAME` of a ResourceBinding, or `NAME` of a ClusterResourceBinding.
    pub(crate) binding: String,
    /// The generation of the binding after the other scheduler's write.
    pub(crate) generation: i64,
    /// The time of the comparison.
    pub(crate) time: MicroTime,
    /// The decision of this scheduler, or `None` if it would not schedule the binding.
    pub(crate) own: Option<Decided>,
    /// The decision that the other scheduler wrote.
    pub(crate) other: Decided,
    /// The clusters that only the other scheduler chose, and this scheduler's reasons against them.
    pub(crate) missing: Vec<MissingCluster>,
}

/// A decision in the form in which a binding contains it.
#[derive(Debug, Serialize)]
pub(crate) struct Decided {
    /// The clusters, ordered by name.
    pub(crate) clusters: Vec<TargetCluster>,
    /// The reason of the condition `Scheduled`.
    pub(crate) reason: String,
}

/// A cluster that this scheduler did not choose, with the reason.
#[derive(Debug, Serialize)]
pub(crate) struct MissingCluster {
    /// The name of the cluster.
    pub(crate) cluster: String,
    /// The plugin that rejected the cluster, if a plugin rejected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
    /// The plugin's reason, or the stage that the cluster reached in the decision.
    pub(crate) reason: String,
}

/// Formats a cluster, for example as `m1: TaintToleration: cluster(s) had untolerated taint {a: b}`.
impl fmt::Display for MissingCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.cluster)?;
        if let Some(plugin) = &self.plugin {
            write!(f, "{plugin}: ")?;
        }
        f.write_str(&self.reason)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DifferenceList<'a> {
    api_version: &'static str,
    kind: &'static str,
    limit: usize,
    differences: Vec<&'a Difference>,
}

impl Differences {
    /// Adds a difference, and removes the oldest difference if the record is full.
    pub(crate) fn add(&self, difference: Difference) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(LIMIT - 1);
        kept.push_front(Arc::new(difference));
    }

    /// Returns the differences as JSON, the newest first.
    ///
    /// # Errors
    /// When a name cannot be written as JSON.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let copied: Vec<Arc<Difference>> = kept.iter().cloned().collect();
        // Release the lock early, because the serialization takes longer than the copy of the references.
        drop(kept);
        serde_json::to_string(&DifferenceList {
            api_version: API_VERSION,
            kind: "DifferenceList",
            limit: LIMIT,
            differences: copied.iter().map(AsRef::as_ref).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(generation: i64) -> Difference {
        let decided = |name: &str| Decided {
            clusters: vec![TargetCluster {
                name: name.to_owned(),
                replicas: 2,
                ..TargetCluster::default()
            }],
            reason: "Success".to_owned(),
        };
        Difference {
            binding: "default/web".to_owned(),
            generation,
            time: MicroTime(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            own: Some(decided("m1")),
            other: decided("m2"),
            missing: vec![MissingCluster {
                cluster: "m2".to_owned(),
                plugin: None,
                reason: "not in the fleet".to_owned(),
            }],
        }
    }

    #[test]
    fn the_newest_differences_are_kept() {
        let differences = Differences::default();
        for generation in 0..250 {
            differences.add(difference(generation));
        }
        let listed: serde_json::Value = serde_json::from_str(&differences.json().unwrap()).unwrap();
        let listed = listed["differences"].as_array().unwrap();
        let generations = listed.iter().map(|entry| entry["generation"].as_i64());
        assert!(generations.eq((150..250).rev().map(Some)));
    }

    #[test]
    fn a_difference_has_both_decisions_and_the_reasons() {
        let differences = Differences::default();
        differences.add(difference(3));
        let listed: serde_json::Value = serde_json::from_str(&differences.json().unwrap()).unwrap();
        assert_eq!(
            listed,
            serde_json::json!({
                "apiVersion": "debug.berth.io/v1", "kind": "DifferenceList", "limit": 100,
                "differences": [{
                    "binding": "default/web", "generation": 3, "time": "1970-01-01T00:00:00.000000Z",
                    "own": { "clusters": [{ "name": "m1", "replicas": 2 }], "reason": "Success" },
                    "other": { "clusters": [{ "name": "m2", "replicas": 2 }], "reason": "Success" },
                    "missing": [{ "cluster": "m2", "reason": "not in the fleet" }],
                }],
            })
        );
    }
}
