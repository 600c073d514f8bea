//! The nodes of a cluster by pool, read from the annotation that `berth controllers` write.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::Cluster;
use berth_api::cluster::ResourceList;
use berth_api::node_pools::{MAX_POOLS, NodePools as Summary};
use berth_api::node_requirements::{NodeLabel, NodeRequirements, NodeTaint};
use berth_api::quantity::Quantity;

use serde::{Deserialize, Serialize};

use crate::resource_vector::NodeShape;

/// The nodes of a cluster by pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePools {
    labels: BTreeMap<String, String>,
    omitted_labels: BTreeSet<String>,
    pools: Vec<Pool>,
}

/// The nodes with the same labels and taints.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pool {
    labels: BTreeMap<String, String>,
    taints: Vec<NodeTaint>,
    /// The numbers of nodes with the same free resources.
    nodes: Vec<(i64, NodeShape)>,
}

/// The first requirement of a pod template that no node of a cluster satisfies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UnmetRequirement {
    /// A label of the node selector.
    NodeLabel {
        /// The key of the label.
        key: String,
        /// The value of the label.
        value: String,
    },
    /// The required node affinity.
    NodeAffinity,
    /// The toleration of all taints of a node.
    Tolerations,
    /// All requirements together. Each of them is satisfied by some node.
    Combination,
}

/// A set of pools of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolSet(u64);

impl PoolSet {
    /// All pools.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Reports whether the set contains the pool with this index.
    pub(crate) fn contains(self, pool: usize) -> bool {
        pool < MAX_POOLS && self.0 >> pool & 1 == 1
    }
}

const _: () = assert!(MAX_POOLS <= 64, "a PoolSet has 64 bits");

impl NodePools {
    /// Reads the annotation of a cluster. Returns `None` if it is missing or malformed. A malformed quantity counts as
    /// zero.
    pub(crate) fn read(cluster: &Cluster) -> Option<Self> {
        let summary = Summary::read(cluster)?;
        let pools = summary.pools.into_iter().take(MAX_POOLS).map(|pool| Pool {
            labels: pool.labels,
            taints: pool.taints,
            nodes: pool
                .nodes
                .iter()
                .map(|equal| (equal.count.max(0), shape(&equal.free)))
                .collect(),
        });
        Some(Self {
            labels: summary.labels,
            omitted_labels: summary.omitted_labels.into_iter().collect(),
            pools: pools.collect(),
        })
    }

    /// Iterates over the pools: their indices and their nodes.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (usize, &[(i64, NodeShape)])> {
        self.pools.iter().map(|pool| &*pool.nodes).enumerate()
    }

    /// Returns the number of nodes in these pools.
    pub(crate) fn count(&self, set: PoolSet) -> i64 {
        let selected = self.pools().filter(|(pool, _)| set.contains(*pool));
        let nodes = selected.flat_map(|(_, nodes)| nodes);
        nodes.fold(0, |sum: i64, (count, _)| sum.saturating_add(*count))
    }

    /// Returns the pools whose nodes satisfy the requirements of a pod template.
    pub(crate) fn select(&self, requirements: &NodeRequirements) -> PoolSet {
        let mut set = 0;
        for (index, pool) in self.pools.iter().enumerate() {
            let is_selected = requirements.tolerate(&pool.taints)
                && requirements.select(|key| self.label(pool, key));
            set |= u64::from(is_selected) << index;
        }
        PoolSet(set)
    }

    /// Returns the first requirement that no node satisfies. Returns `None` if a node may satisfy all requirements, or if
    /// there are no nodes.
    pub(crate) fn unmet(&self, requirements: &NodeRequirements) -> Option<UnmetRequirement> {
        let any_node = self.count(PoolSet::ALL) > 0;
        if !any_node || self.count(self.select(requirements)) > 0 {
            return None;
        }
        let satisfy = |part: &NodeRequirements| {
            let mut pools = self.pools.iter();
            pools.any(|pool| part.select(|key| self.label(pool, key)))
        };
        for (key, value) in &requirements.selector {
            let (key, value) = (key.clone(), value.clone());
            let label = [(key.clone(), value.clone())].into();
            if !satisfy(&NodeRequirements::of_parts(label, None, Vec::new())) {
                return Some(UnmetRequirement::NodeLabel { key, value });
            }
        }
        let mut affinity = requirements.clone();
        affinity.selector.clear();
        if !satisfy(&affinity) {
            return Some(UnmetRequirement::NodeAffinity);
        }
        let mut pools = self.pools.iter();
        Some(if pools.any(|pool| requirements.tolerate(&pool.taints)) {
            UnmetRequirement::Combination
        } else {
            UnmetRequirement::Tolerations
        })
    }

    fn label<'a>(&'a self, pool: &'a Pool, key: &str) -> NodeLabel<'a> {
        let value = pool.labels.get(key).or_else(|| self.labels.get(key));
        if value.is_none() && self.omitted_labels.contains(key) {
            return NodeLabel::Unknown;
        }
        NodeLabel::Value(value.map(String::as_str))
    }
}

fn shape(free: &ResourceList) -> NodeShape {
    let amounts = free
        .iter()
        .filter_map(|(resource, text)| Some((&**resource, text.parse().ok()?)));
    let pods = free.get("pods").and_then(|pods| pods.parse().ok());
    NodeShape::new(amounts, pods.map_or(0, Quantity::value))
}

#[cfg(test)]
mod tests {
    use berth_api::binding::NodeClaim;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_requirement_that_no_node_satisfies_is_the_cause() {
        let taint = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        let nodes = json!([{ "count": 1, "free": { "cpu": "4", "pods": "10" } }]);
        let pools = json!({
            "labels": { "os": "linux" },
            "omittedLabels": ["kubernetes.io/hostname"],
            "pools": [
                { "labels": { "disk": "ssd" }, "taints": taint, "nodes": nodes },
                { "labels": { "disk": "hdd" }, "nodes": nodes },
            ],
        });
        let cluster = json!({
            "metadata": { "name": "m1", "annotations": { "capacity.berth/node-pools": pools.to_string() } },
            "spec": { "syncMode": "Push" },
        });
        let pools = NodePools::read(&serde_json::from_value(cluster).unwrap()).unwrap();
        let affinity = |value: &str| {
            let expression = json!({ "key": "disk", "operator": "In", "values": [value] });
            json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] })
        };
        let label = |key: &str, value: &str| UnmetRequirement::NodeLabel {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        for (claim, expected) in [
            (json!({}), None),
            (json!({ "nodeSelector": { "disk": "hdd" } }), None),
            (
                json!({ "nodeSelector": { "kubernetes.io/hostname": "n1" } }),
                None,
            ),
            (
                json!({ "nodeSelector": { "disk": "nvme", "os": "linux" } }),
                Some(label("disk", "nvme")),
            ),
            (
                json!({ "nodeSelector": { "os": "windows" }, "hardNodeAffinity": affinity("nvme") }),
                Some(label("os", "windows")),
            ),
            (
                json!({ "hardNodeAffinity": affinity("nvme") }),
                Some(UnmetRequirement::NodeAffinity),
            ),
            // The only node with this label has a taint.
            (
                json!({ "nodeSelector": { "disk": "ssd" } }),
                Some(UnmetRequirement::Combination),
            ),
            (
                json!({ "nodeSelector": { "disk": "ssd" }, "tolerations": [{ "key": "gpu", "operator": "Exists" }] }),
                None,
            ),
        ] {
            let parsed: NodeClaim = serde_json::from_value(claim.clone()).unwrap();
            let requirements = NodeRequirements::new(Some(&parsed));
            assert_eq!(pools.unmet(&requirements), expected, "{claim}");
        }
        let only_tainted = NodePools {
            pools: pools.pools[..1].to_vec(),
            ..pools
        };
        let unmet = only_tainted.unmet(&NodeRequirements::default());
        assert_eq!(unmet, Some(UnmetRequirement::Tolerations));
        let no_nodes = NodePools {
            pools: Vec::new(),
            ..only_tainted
        };
        assert_eq!(no_nodes.unmet(&NodeRequirements::default()), None);
    }
}
