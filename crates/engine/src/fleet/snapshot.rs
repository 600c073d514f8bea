//! Immutable snapshots of the fleet, and views of the clusters in a snapshot. Snapshots share their data, so clones are
//! cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::Cluster;
use berth_api::cluster_score::ClusterScores;
use berth_api::quantity::Quantity;

use super::affinity::CompiledAffinity;
use super::cluster_block::{BLOCK, Block, ResourceId};
use super::row::{RepellingTaint, Row};
use super::scores::ScoresByCluster;
use super::symbols::{NONE, Symbol};
use super::topology::Topology;
use crate::cluster_set::Bits;

/// The state of the fleet at one time. A snapshot sorts its clusters by name. The ordinal of a cluster is its index in
/// this order.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) topology: Arc<Topology>,
    pub(crate) blocks: Vec<Arc<Block>>,
    pub(crate) resources: Arc<BTreeMap<String, ResourceId>>,
    pub(crate) scores: Arc<ScoresByCluster>,
}

impl Snapshot {
    /// Returns the number of clusters, including clusters that are being deleted.
    pub fn len(&self) -> usize {
        self.topology.len()
    }

    /// Reports whether the fleet has no clusters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ordinal of the cluster with this name.
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

    /// Returns a view of each cluster, sorted by name.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterView<'_>> {
        (0..self.len()).filter_map(|ordinal| self.cluster(ordinal))
    }

    /// Returns the clusters that serve an API resource, or `None` if no cluster has ever served the resource.
    pub fn serving(&self, api_version: &str, kind: &str) -> Option<&Bits> {
        let number = self.topology.catalogue.get(api_version, kind)?;
        self.topology
            .served_by
            .get(number as usize)
            .map(|clusters| &**clusters)
    }

    /// Returns the clusters whose reported API resources are complete. Such a cluster is ready, and all of its API groups
    /// were discovered.
    pub fn with_complete_apis(&self) -> &Bits {
        &self.topology.apis_complete
    }

    /// Returns the clusters that are being deleted.
    pub fn deleting(&self) -> &Bits {
        &self.topology.deleting
    }

    /// Returns the clusters that an affinity matches.
    pub fn matching(&self, affinity: &CompiledAffinity) -> Bits {
        affinity.mask(&self.topology)
    }

    /// Returns the clusters that have the label `key` with a value that satisfies a predicate. Calls the predicate once
    /// for each distinct value.
    pub fn with_label(&self, key: &str, predicate: impl Fn(&str) -> bool) -> Bits {
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
                    .is_some_and(&predicate)
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

    /// Returns the clusters with at least one zone.
    pub fn with_zones(&self) -> Bits {
        let zones = &self.topology.zones;
        Bits::from_fn(self.len(), |ordinal| {
            zones.get(ordinal).is_some_and(|zones| !zones.is_empty())
        })
    }

    /// Returns a number that identifies the region of a cluster in this snapshot, or `None` if the cluster has no
    /// region.
    pub fn region_number(&self, ordinal: usize) -> Option<u32> {
        let region = self.topology.regions.get(ordinal).copied();
        region.filter(|&region| region != NONE)
    }

    /// Returns the clusters whose taints satisfy a predicate. Calls the predicate once for each distinct list of
    /// taints.
    pub fn with_taints(&self, predicate: impl Fn(&[RepellingTaint]) -> bool) -> Bits {
        let topology = &self.topology;
        let matching: Vec<bool> = topology
            .taint_lists
            .iter()
            .map(|taints| predicate(taints))
            .collect();
        Bits::from_column(&topology.taint_list_of, |list| {
            matching.get(list as usize).copied().unwrap_or(false)
        })
    }

    /// Returns the names of all clusters, indexed by ordinal.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.topology.names
    }

    pub(crate) fn row(&self, ordinal: usize) -> Option<&Arc<Row>> {
        self.blocks.get(ordinal / BLOCK)?.rows.get(ordinal % BLOCK)
    }

    /// Returns the scores of the cluster with this name, or `None` if no ClusterScore describes it.
    pub fn scores(&self, cluster: &str) -> Option<&Arc<ClusterScores>> {
        self.scores.get(cluster)
    }

    /// Returns the name of the cluster with this ordinal.
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
    /// Returns the ordinal of the cluster.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Returns the name of the cluster.
    pub fn name(&self) -> &'a str {
        &self.row.name
    }

    /// Returns the value of the label with this key.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.row
            .labels
            .iter()
            .find(|(candidate, _)| &*candidate.text == key)
            .map(|(_, value)| &*value.text)
    }

    /// Returns the keys and values of all labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.row
            .labels
            .iter()
            .map(|(key, value)| (&*key.text, &*value.text))
    }

    /// Returns the provider, or an empty string if the cluster has no provider.
    pub fn provider(&self) -> &'a str {
        self.row
            .provider
            .as_ref()
            .map_or("", |provider| &provider.text)
    }

    /// Returns the region, or an empty string if the cluster has no region.
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

    /// Returns the Cluster object without its `managedFields`, or `None` if the fleet does not keep objects. Placement
    /// filters must not read the object, because their cached results stay in use when only the object changes.
    pub fn object(&self) -> Option<&'a Arc<Cluster>> {
        self.row.object.as_ref()
    }

    /// Returns the scores of the cluster, or `None` if no ClusterScore describes it. Placement filters must not read them.
    pub fn scores(&self) -> Option<&'a Arc<ClusterScores>> {
        self.snapshot.scores(self.name())
    }

    /// Returns the free amount of a resource: `allocatable - allocated - allocating`.
    pub fn free(&self, resource: &str) -> Option<Quantity> {
        self.row.capacity.free.get(resource).copied()
    }

    /// Returns the number of free pods, which is negative if the cluster is overcommitted. Returns `None` if the
    /// cluster reports no resource summary.
    pub fn free_pods(&self) -> Option<i64> {
        self.row.capacity.pods
    }
}
