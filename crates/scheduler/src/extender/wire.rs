//! The JSON types of the extender protocol, for the bodies of POST requests and their responses.
//!
//! The messages equal the messages of kube-scheduler's extenders, with bindings in place of pods and clusters in place
//! of nodes. In a response, unknown fields are ignored, and `null` stands for an empty list or map, as servers in Go
//! write it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use berth_api::Cluster;
use schemars::JsonSchema;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The request of filter and prioritize calls.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtenderArgs {
    /// The binding to schedule: a ResourceBinding or ClusterResourceBinding of work.karmada.io/v1alpha2.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub binding: Box<RawValue>,
    /// The clusters; absent for an extender that caches them itself (`clusterCacheCapable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterList>,
    /// The names of the clusters, for an extender that caches them itself (`clusterCacheCapable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_names: Option<Vec<String>>,
}

/// A list of clusters.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClusterList {
    /// Objects of the kind Cluster of cluster.karmada.io/v1alpha1, without managed fields.
    #[serde(
        serialize_with = "serialize_items",
        deserialize_with = "deserialize_items"
    )]
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    pub items: Vec<Arc<Cluster>>,
}

fn serialize_items<S: Serializer>(
    items: &[Arc<Cluster>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(|cluster| &**cluster))
}

fn deserialize_items<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<Cluster>>, D::Error> {
    Ok(Vec::<Cluster>::deserialize(deserializer)?
        .into_iter()
        .map(Arc::new)
        .collect())
}

/// The response of filter calls. A cluster that is not listed as passing is rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilterResult {
    /// The clusters that pass. Only their names are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<NamedClusters>,
    /// The names of the clusters that pass. If `clusters` is also present, the field that the request used applies.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bounded_list"
    )]
    pub cluster_names: Option<Vec<String>>,
    /// Rejected clusters with the reason that users read.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bounded_map"
    )]
    pub failed_clusters: Option<BTreeMap<String, String>>,
    /// Rejected clusters that a preemption cannot make available, with the reason that users read.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "bounded_map"
    )]
    pub failed_and_unresolvable_clusters: Option<BTreeMap<String, String>>,
    /// The reason why the call failed; empty on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A list of clusters in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamedClusters {
    /// The clusters.
    #[serde(default, deserialize_with = "bounded_list")]
    pub items: Option<Vec<NamedCluster>>,
}

/// A cluster in a response. Other fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamedCluster {
    /// The metadata.
    pub metadata: ClusterName,
}

/// The metadata of a cluster in a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClusterName {
    /// The name.
    pub name: String,
}

/// The response of prioritize calls. A cluster that is not in the list has the score 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct HostPriorityList(
    #[serde(deserialize_with = "bounded_list")] pub Option<Vec<HostPriority>>,
);

/// The score of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HostPriority {
    /// The name of the cluster.
    pub host: String,
    /// The score, from 0 to 10. Higher is better.
    #[schemars(range(min = 0, max = 10))]
    pub score: i64,
}

/// The request of preempt calls.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreemptionArgs {
    /// The binding that fits into no cluster.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub binding: Box<RawValue>,
    /// The victims: the bindings to evict, by cluster.
    pub cluster_name_to_victims: BTreeMap<String, Victims>,
}

/// The response of preempt calls: the victims of the request that may be preempted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreemptionResult {
    /// The permitted victims by cluster.
    #[serde(default, deserialize_with = "bounded_map")]
    pub cluster_name_to_victims: Option<BTreeMap<String, Victims>>,
}

/// Bindings to evict from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Victims {
    /// The bindings.
    #[serde(default, deserialize_with = "bounded_list")]
    pub bindings: Option<Vec<VictimBinding>>,
}

/// A reference to a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct VictimBinding {
    /// The namespace; empty for a ClusterResourceBinding.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The request of bind calls. The extender stores the clusters in `spec.clusters` of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BindingArgs {
    /// The name of the binding.
    pub binding_name: String,
    /// The namespace of the binding; empty for a ClusterResourceBinding.
    pub binding_namespace: String,
    /// The UID of the binding, which changes when the binding is deleted and created again.
    #[serde(rename = "bindingUID")]
    pub binding_uid: String,
    /// The clusters with their replicas, in the form of `spec.clusters`.
    pub clusters: Vec<berth_api::binding::TargetCluster>,
}

/// The response of bind calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BindingResult {
    /// The reason why the decision is not stored; empty on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Maximum number of entries of a list or map in a response. An entry takes more memory than its text.
const MAX_ENTRIES: usize = 100_000;

struct BoundedList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            check_entries(list.len())?;
            list.push(entry);
        }
        Ok(Some(list))
    }
}

struct BoundedMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedMap<T> {
    type Value = Option<BTreeMap<String, T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            check_entries(map.len())?;
            map.insert(key, value);
        }
        Ok(Some(map))
    }
}

fn check_entries<E: de::Error>(entries: usize) -> Result<(), E> {
    if entries == MAX_ENTRIES {
        let problem = format!("more than {MAX_ENTRIES} entries");
        return Err(E::custom(problem));
    }
    Ok(())
}

/// Decodes a list of at most [`MAX_ENTRIES`] entries, or null.
fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_any(BoundedList(PhantomData))
}

/// Decodes a map of at most [`MAX_ENTRIES`] entries, or null.
fn bounded_map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    deserializer.deserialize_any(BoundedMap(PhantomData))
}
