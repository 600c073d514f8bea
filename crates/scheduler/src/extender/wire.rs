//! What is said between the scheduler and an extender: JSON in the bodies of POST requests and their answers.
//!
//! The messages are those of kube-scheduler's extenders, with bindings in place of pods and clusters in place
//! of nodes. Answers may hold `null` where a list or map is empty, as servers in Go write it, and fields that
//! are not known here.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// What filter and prioritize calls send.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderArgs {
    /// The binding to be scheduled: a ResourceBinding or ClusterResourceBinding of work.karmada.io/v1alpha2.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub binding: Box<RawValue>,
    /// The clusters; absent for an extender that knows them itself (`clusterCacheCapable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterList>,
    /// The names of the clusters, for an extender that knows them itself (`clusterCacheCapable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_names: Option<Vec<String>>,
}

/// Clusters.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClusterList {
    /// Objects of the kind Cluster of cluster.karmada.io/v1alpha1, without managed fields.
    #[serde(serialize_with = "each", deserialize_with = "shared")]
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    pub items: Vec<Arc<Cluster>>,
}

fn each<S: Serializer>(items: &[Arc<Cluster>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(|cluster| &**cluster))
}

fn shared<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<Cluster>>, D::Error> {
    Ok(Vec::<Cluster>::deserialize(deserializer)?
        .into_iter()
        .map(Arc::new)
        .collect())
}

/// What filter calls answer. A cluster that is named nowhere does not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterResult {
    /// The clusters that pass; only their names are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<NamedClusters>,
    /// The names of the clusters that pass. Of this and `clusters`, the one of the kind that was sent counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_names: Option<Vec<String>>,
    /// Clusters that do not pass, with the reason that users read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_clusters: Option<BTreeMap<String, String>>,
    /// Clusters that do not pass and would not if everything else left them, with the reason that users read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_and_unresolvable_clusters: Option<BTreeMap<String, String>>,
    /// Why the call failed; empty where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Clusters in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedClusters {
    /// The clusters.
    #[serde(default)]
    pub items: Option<Vec<NamedCluster>>,
}

/// A cluster in an answer: whatever else it holds is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedCluster {
    /// Its metadata.
    pub metadata: ClusterName,
}

/// The metadata of a cluster in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterName {
    /// Its name.
    pub name: String,
}

/// What prioritize calls answer: a cluster that is not in the list has the score 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct HostPriorityList(pub Option<Vec<HostPriority>>);

/// The score of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostPriority {
    /// The name of the cluster.
    pub host: String,
    /// The score: 0 to 10, the more the better.
    #[schemars(range(min = 0, max = 10))]
    pub score: i64,
}

/// What preempt calls send.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionArgs {
    /// The binding that fits nowhere.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub binding: Box<RawValue>,
    /// For each cluster the bindings that would have to leave it.
    pub cluster_name_to_victims: BTreeMap<String, Victims>,
}

/// What preempt calls answer: what may be preempted, of what was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionResult {
    /// For each cluster the bindings that may leave it.
    #[serde(default)]
    pub cluster_name_to_victims: Option<BTreeMap<String, Victims>>,
}

/// Bindings that would have to leave a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Victims {
    /// The bindings.
    #[serde(default)]
    pub bindings: Option<Vec<VictimBinding>>,
}

/// Names a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VictimBinding {
    /// The namespace; empty for a ClusterResourceBinding.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What bind calls send. The extender stores the clusters in `spec.clusters` of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingArgs {
    /// The name of the binding.
    pub binding_name: String,
    /// Its namespace; empty for a ClusterResourceBinding.
    pub binding_namespace: String,
    /// Its UID: one that was made anew is another one.
    #[serde(rename = "bindingUID")]
    pub binding_uid: String,
    /// The clusters with their replicas, as `spec.clusters` holds them.
    pub clusters: Vec<berth_api::binding::TargetCluster>,
}

/// What bind calls answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BindingResult {
    /// Why the decision is not stored; empty where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
