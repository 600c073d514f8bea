//! The fleet at one moment: immutable, cheap to share.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use berth_api::quantity::Quantity;

use super::block::{BLOCK, Block, ResourceId};
use super::row::{RepellingTaint, Row};
use super::symbols::{NONE, Symbol};
use super::topology::Topology;
use crate::affinity::CompiledAffinity;
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

    /// The clusters that an affinity matches.
    pub fn matching(&self, affinity: &CompiledAffinity) -> Bits {
        affinity.mask(&self.topology)
    }

    /// The clusters with a label whose value satisfies a predicate, which is asked once for each value.
    pub fn with_label(&self, key: &str, holds: impl Fn(&str) -> bool) -> Bits {
        let topology = &self.topology;
        let column = topology
            .symbols
            .get(key)
            .and_then(|symbol| topology.labels.get(&symbol));
        let Some(column) = column else {
            return Bits::none(self.len());
        };
        let mut known: BTreeMap<Symbol, bool> = BTreeMap::from([(NONE, false)]);
        Bits::from_fn(self.len(), |ordinal| {
            let value = column.get(ordinal).copied().unwrap_or(NONE);
            *known.entry(value).or_insert_with(|| {
                self.cluster(ordinal)
                    .and_then(|cluster| cluster.label(key))
                    .is_some_and(&holds)
            })
        })
    }

    /// The clusters that have a provider.
    pub fn with_provider(&self) -> Bits {
        Bits::from_column(&self.topology.providers, |provider| provider != NONE)
    }

    /// The clusters that have a region.
    pub fn with_region(&self) -> Bits {
        Bits::from_column(&self.topology.regions, |region| region != NONE)
    }

    /// The clusters that have zones.
    pub fn with_zones(&self) -> Bits {
        let zones = &self.topology.zones;
        Bits::from_fn(self.len(), |ordinal| {
            zones.get(ordinal).is_some_and(|zones| !zones.is_empty())
        })
    }

    /// A number that stands for the region of a cluster, the same for the same region in this snapshot.
    pub fn region_number(&self, ordinal: usize) -> Option<u32> {
        let region = self.topology.regions.get(ordinal).copied();
        region.filter(|&region| region != NONE)
    }

    /// The clusters whose taints satisfy a predicate, which is asked once for each distinct list.
    pub fn with_taints(&self, holds: impl Fn(&[RepellingTaint]) -> bool) -> Bits {
        let topology = &self.topology;
        let holding: Vec<bool> = topology
            .taint_lists
            .iter()
            .map(|taints| holds(taints))
            .collect();
        Bits::from_column(&topology.taint_list_of, |list| {
            holding.get(list as usize).copied().unwrap_or(false)
        })
    }

    /// The names of all clusters, by ordinal.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.topology.names
    }

    pub(crate) fn row(&self, ordinal: usize) -> Option<&Arc<Row>> {
        self.blocks.get(ordinal / BLOCK)?.rows.get(ordinal % BLOCK)
    }

    /// The name of a cluster, to be shared, if the ordinal is one.
    pub fn name(&self, ordinal: usize) -> Option<&Arc<str>> {
        self.topology.names.get(ordinal)
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

    /// The object, where the fleet keeps objects. It is without `managedFields`.
    pub fn object(&self) -> Option<&'a Arc<Cluster>> {
        self.row.object.as_ref()
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
