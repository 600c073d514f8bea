//! The nodes of a cluster by pool, read from the annotation that `berth controllers` write.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::Cluster;
use berth_api::cluster::ResourceList;
use berth_api::node_pools::{MAX_POOLS, NodePools as Summary};
use berth_api::node_requirements::{NodeLabel, NodeRequirements, NodeTaint};
use berth_api::quantity::Quantity;

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
