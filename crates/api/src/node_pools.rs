//! The summary of a cluster's nodes by pool, in an annotation of the Cluster object. `berth controllers` write it, and
//! schedulers estimate the capacity of the cluster from it.
//!
//! The nodes of a pool have the same labels and taints, except for labels whose values differ in most nodes, such as the
//! name of the host. The summary is bounded: a cluster with more pools or a longer text loses labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Cluster;
use crate::cluster::ResourceList;
use crate::node_requirements::NodeTaint;
use crate::well_known::NODE_POOLS;

/// Maximum number of pools of a cluster.
pub const MAX_POOLS: usize = 64;
/// Maximum length of the annotation, in bytes.
pub const MAX_BYTES: usize = 32 << 10;

/// The nodes of a cluster by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePools {
    /// The labels that all nodes have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The keys of labels that the pools omit, sorted. Nodes of a pool may have any value of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted_labels: Vec<String>,
    /// The pools, in a stable order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<NodePool>,
}

impl NodePools {
    /// Reads the annotation of a Cluster. Returns `None` if it is missing or malformed.
    pub fn read(cluster: &Cluster) -> Option<Self> {
        let text = cluster.metadata.annotations.as_ref()?.get(NODE_POOLS)?;
        serde_json::from_str(text).ok()
    }

    /// Returns the parse error of the annotation of a Cluster, if it is malformed.
    pub fn error(cluster: &Cluster) -> Option<String> {
        let text = cluster.metadata.annotations.as_ref()?.get(NODE_POOLS)?;
        let error = serde_json::from_str::<Self>(text).err()?;
        Some(error.to_string())
    }

    /// Removes the annotation of a Cluster, so that estimates use its resource models or its resource summary.
    pub fn remove(cluster: &mut Cluster) {
        if let Some(annotations) = &mut cluster.metadata.annotations {
            annotations.remove(NODE_POOLS);
        }
    }
}

/// The nodes with the same labels and taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The labels of the nodes, without those of all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The taints that keep pods away: those with the effect `NoSchedule` or `NoExecute`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<NodeTaint>,
    /// The nodes, counted by their free resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<EqualNodes>,
}

/// The number of nodes with the same free resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EqualNodes {
    /// The number of nodes.
    pub count: i64,
    /// The free resources of each of these nodes, rounded down. The resource `pods` is the number of further pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub free: ResourceList,
}
