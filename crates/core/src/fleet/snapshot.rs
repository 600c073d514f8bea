//! The fleet at one moment: immutable, cheap to share.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::quantity::Quantity;

use super::block::{BLOCK, Block, ResourceId};
use super::row::{RepellingTaint, Row};
use super::topology::Topology;
use crate::bits::Bits;

/// The fleet at one moment. Clusters are numbered by ordinals, which are their ranks by name.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) topology: Arc<Topology>,
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) resources: Arc<BTreeMap<String, ResourceId>>,
}

impl Snapshot {
    /// The number of clusters, those being deleted included.
    pub fn len(&self) -> usize {
        self.topology.len()
    }

    /// Whether the fleet has no clusters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ordinal of a cluster.
    pub fn ordinal(&self, name: &str) -> Option<usize> {
        self.topology.ordinal(name)
    }

    /// A look at one cluster, if the ordinal is one.
    pub fn cluster(&self, ordinal: usize) -> Option<ClusterView<'_>> {
        self.row(ordinal).map(|row| ClusterView {
            snapshot: self,
            ordinal,
            row,
        })
    }

    /// A look at each cluster, by name.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterView<'_>> {
        (0..self.len()).filter_map(|ordinal| self.cluster(ordinal))
    }

    /// The clusters that serve an API resource.
    pub fn serving(&self, api_version: &str, kind: &str) -> Option<&Bits> {
        let number = self.topology.catalogue.get(api_version, kind)?;
        self.topology
            .served_by
            .get(number as usize)
            .map(|clusters| &**clusters)
    }

    /// The clusters that are being deleted.
    pub fn deleting(&self) -> &Bits {
        &self.topology.deleting
    }

    pub(crate) fn row(&self, ordinal: usize) -> Option<&Arc<Row>> {
        self.blocks.get(ordinal / BLOCK)?.rows.get(ordinal % BLOCK)
    }

    pub(crate) fn name(&self, ordinal: usize) -> &Arc<str> {
        &self.topology.names[ordinal]
    }
}

/// A look at one cluster of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    snapshot: &'a Snapshot,
    ordinal: usize,
    row: &'a Row,
}

impl<'a> ClusterView<'a> {
    /// Its place in the snapshot, which is its rank by name.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.row.name
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.row
            .labels
            .iter()
            .find(|(candidate, _)| &*candidate.text == key)
            .map(|(_, value)| &*value.text)
    }

    /// All labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.row
            .labels
            .iter()
            .map(|(key, value)| (&*key.text, &*value.text))
    }

    /// The provider; empty when absent.
    pub fn provider(&self) -> &'a str {
        self.row
            .provider
            .as_ref()
            .map_or("", |provider| &provider.text)
    }

    /// The region; empty when absent.
    pub fn region(&self) -> &'a str {
        self.row.region.as_ref().map_or("", |region| &region.text)
    }

    /// The zones.
    pub fn zones(&self) -> impl Iterator<Item = &'a str> {
        self.row.zones.iter().map(|zone| &*zone.text)
    }

    /// The taints that keep workloads away.
    pub fn taints(&self) -> &'a [RepellingTaint] {
        &self.row.taints
    }

    /// Whether it serves an API resource.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        self.snapshot
            .serving(api_version, kind)
            .is_some_and(|clusters| clusters.contains(self.ordinal))
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.row.deleting
    }

    /// What it has free of a resource: `allocatable - allocated - allocating`.
    pub fn free(&self, resource: &str) -> Option<Quantity> {
        self.row.capacity.free.get(resource).copied()
    }

    /// The pods it can still take; negative when it holds too many, None when it reports no summary.
    pub fn free_pods(&self) -> Option<i64> {
        self.row.capacity.pods
    }
}
