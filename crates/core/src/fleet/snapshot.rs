//! Immutable snapshots of the fleet that are cheap to share.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use berth_api::quantity::Quantity;

use super::affinity::CompiledAffinity;
use super::block::{BLOCK, Block, ResourceId};
use super::row::{RepellingTaint, Row};
use super::symbols::{NONE, Symbol};
use super::topology::Topology;
use crate::bits::Bits;

/// The state of the fleet at one time. Ordinals number the clusters in the order of their names.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) topology: Arc<Topology>,
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) resources: Arc<BTreeMap<String, ResourceId>>,
}

impl Snapshot {
    /// Returns the number of clusters, including those in deletion.
    pub fn len(&self) -> usize {
        self.topology.len()
    }

    /// Reports whether the fleet has no clusters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ordinal of a cluster.
    pub fn ordinal(&self, name: &str) -> Option<usize> {
        self.topology.ordinal(name)
    }

    /// Returns a view of the cluster with this ordinal.
    pub fn cluster(&self, ordinal: usize) -> Option<ClusterView<'_>> {
        self.row(ordinal).map(|row| ClusterView {
            snapshot: self,
            ordinal,
            row,
        })
    }

    /// Returns a view of each cluster, by name.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterView<'_>> {
        (0..self.len()).filter_map(|ordinal| self.cluster(ordinal))
    }

    /// Returns the clusters that serve an API resource, or `None` if it was never served.
    pub fn serving(&self, api_version: &str, kind: &str) -> Option<&Bits> {
        let number = self.topology.catalogue.get(api_version, kind)?;
        self.topology
            .served_by
            .get(number as usize)
            .map(|clusters| &**clusters)
    }

    /// Returns the clusters in deletion.
    pub fn deleting(&self) -> &Bits {
        &self.topology.deleting
    }

    /// Returns the clusters that an affinity matches.
    pub fn matching(&self, affinity: &CompiledAffinity) -> Bits {
        affinity.mask(&self.topology)
    }

    /// Returns the clusters whose value of a label satisfies a predicate, which is called once for each
    /// distinct value.
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

    /// Returns the clusters with a provider.
    pub fn with_provider(&self) -> Bits {
        Bits::from_column(&self.topology.providers, |provider| provider != NONE)
    }

    /// Returns the clusters with a region.
    pub fn with_region(&self) -> Bits {
        Bits::from_column(&self.topology.regions, |region| region != NONE)
    }

    /// Returns the clusters with zones.
    pub fn with_zones(&self) -> Bits {
        let zones = &self.topology.zones;
        Bits::from_fn(self.len(), |ordinal| {
            zones.get(ordinal).is_some_and(|zones| !zones.is_empty())
        })
    }

    /// Returns a number for the region of a cluster, equal for equal regions of this snapshot.
    pub fn region_number(&self, ordinal: usize) -> Option<u32> {
        let region = self.topology.regions.get(ordinal).copied();
        region.filter(|&region| region != NONE)
    }

    /// Returns the clusters whose taints satisfy a predicate, which is called once for each distinct list.
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

    /// Returns the names of all clusters, by ordinal.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.topology.names
    }

    pub(crate) fn row(&self, ordinal: usize) -> Option<&Arc<Row>> {
        self.blocks.get(ordinal / BLOCK)?.rows.get(ordinal % BLOCK)
    }

    /// Returns the shared name of the cluster with this ordinal.
    pub fn name(&self, ordinal: usize) -> Option<&Arc<str>> {
        self.topology.names.get(ordinal)
    }
}

/// A view of one cluster in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    snapshot: &'a Snapshot,
    ordinal: usize,
    row: &'a Row,
}

impl<'a> ClusterView<'a> {
    /// Returns the ordinal: the rank by name.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        &self.row.name
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.row
            .labels
            .iter()
            .find(|(candidate, _)| &*candidate.text == key)
            .map(|(_, value)| &*value.text)
    }

    /// Returns all labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.row
            .labels
            .iter()
            .map(|(key, value)| (&*key.text, &*value.text))
    }

    /// Returns the provider; empty if absent.
    pub fn provider(&self) -> &'a str {
        self.row
            .provider
            .as_ref()
            .map_or("", |provider| &provider.text)
    }

    /// Returns the region; empty if absent.
    pub fn region(&self) -> &'a str {
        self.row.region.as_ref().map_or("", |region| &region.text)
    }

    /// Returns the zones.
    pub fn zones(&self) -> impl Iterator<Item = &'a str> {
        self.row.zones.iter().map(|zone| &*zone.text)
    }

    /// Returns the taints that repel workloads.
    pub fn taints(&self) -> &'a [RepellingTaint] {
        &self.row.taints
    }

    /// Reports whether the cluster serves an API resource.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        self.snapshot
            .serving(api_version, kind)
            .is_some_and(|clusters| clusters.contains(self.ordinal))
    }

    /// Reports whether the cluster is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.row.deleting
    }

    /// Returns the object without `managedFields`, if the fleet keeps objects.
    pub fn object(&self) -> Option<&'a Arc<Cluster>> {
        self.row.object.as_ref()
    }

    /// Returns the free amount of a resource: `allocatable - allocated - allocating`.
    pub fn free(&self, resource: &str) -> Option<Quantity> {
        self.row.capacity.free.get(resource).copied()
    }

    /// Returns the number of free pods; negative if overcommitted, `None` without a summary.
    pub fn free_pods(&self) -> Option<i64> {
        self.row.capacity.pods
    }
}
