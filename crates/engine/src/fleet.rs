//! The fleet: the latest state of all Cluster objects and ClusterScores. Decisions read immutable snapshots of the fleet.
//!
//! The fleet computes the data for decisions when a cluster changes. Snapshots share this data. After a change of a
//! cluster, the next snapshot copies only the affected columns and one block of clusters. Adding or removing a cluster
//! shifts the ordinals of other clusters. This is rare, so the fleet then rebuilds the next snapshot.

mod affinity;
mod api_numbers;
pub(crate) mod capacity;
pub(crate) mod cluster_block;
pub(crate) mod node_pools;
pub(crate) mod row;
mod scores;
mod snapshot;
pub(crate) mod symbols;
pub(crate) mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::cluster::ClusterStatus;
use berth_api::cluster_score::ClusterScoreSpec;
use berth_api::{Cluster, ClusterScore};

pub use affinity::CompiledAffinity;
use api_numbers::Catalogue;
use capacity::Capacity;
pub use capacity::CapacityError;
use cluster_block::{BLOCK, Block, ResourceId};
pub use node_pools::UnmetRequirement;
use row::{Interned, Row};
pub use row::{RepellingEffect, RepellingTaint};
use scores::ScoreTable;
pub use snapshot::{ClusterView, Snapshot};
use symbols::SymbolTable;
use topology::Topology;

/// A part of a cluster that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// The cluster is new.
    Added,
    /// The labels.
    Labels,
    /// The provider, the region or the zones.
    Fields,
    /// The taints that repel workloads.
    Taints,
    /// The served API resources, or whether they are complete.
    Apis,
    /// The free capacity.
    Capacity,
    /// The deletion timestamp.
    Deletion,
    /// Any field of the Cluster object. Reported only if the fleet keeps objects.
    Object,
}

/// The changes that [`Fleet::apply`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterChange {
    aspects: Vec<Aspect>,
    capacity_error: Option<CapacityError>,
}

impl ClusterChange {
    /// Reports whether the change is irrelevant for decisions.
    pub fn is_empty(&self) -> bool {
        self.aspects.is_empty()
    }

    /// Reports whether an aspect changed.
    pub fn contains(&self, aspect: Aspect) -> bool {
        self.aspects.contains(&aspect)
    }

    /// Returns all changed aspects.
    pub fn aspects(&self) -> &[Aspect] {
        &self.aspects
    }

    /// Returns the parse error of the first malformed quantity. Decisions use 0 for malformed quantities.
    pub fn capacity_error(&self) -> Option<&CapacityError> {
        self.capacity_error.as_ref()
    }
}

/// The latest state of all Cluster objects.
#[derive(Clone, Debug)]
pub struct Fleet {
    rows: BTreeMap<Arc<str>, Arc<Row>>,
    symbols: SymbolTable,
    catalogue: Arc<Catalogue>,
    resources: Arc<BTreeMap<String, ResourceId>>,
    taint_lists: Arc<Vec<Arc<[RepellingTaint]>>>,
    /// The index of each list of taints in `taint_lists`.
    taint_list_indices: BTreeMap<Arc<[RepellingTaint]>, u32>,
    keeps_objects: bool,
    scores: ScoreTable,
    snapshot: Arc<Snapshot>,
    /// True if `snapshot` must be rebuilt, because clusters were added or removed, or most lists of taints are unused.
    stale: bool,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    /// Creates a fleet without clusters.
    pub fn new() -> Self {
        let symbols = SymbolTable::new();
        let catalogue = Arc::<Catalogue>::default();
        let untainted: Arc<[RepellingTaint]> = Arc::from([]);
        let taint_lists = Arc::new(vec![Arc::clone(&untainted)]);
        let topology = Topology::new(
            [].iter(),
            symbols.symbols().clone(),
            Arc::clone(&taint_lists),
            Arc::clone(&catalogue),
        );
        let resources = Arc::default();
        Self {
            rows: BTreeMap::new(),
            symbols,
            catalogue,
            snapshot: Arc::new(Snapshot {
                topology: Arc::new(topology),
                blocks: Vec::new(),
                resources: Arc::clone(&resources),
                scores: Arc::default(),
            }),
            resources,
            taint_lists,
            taint_list_indices: BTreeMap::from([(untainted, 0)]),
            keeps_objects: false,
            scores: ScoreTable::default(),
            stale: false,
        }
    }

    /// Makes the fleet keep the Cluster objects for plugins. The `managedFields` of these objects are removed.
    #[must_use]
    pub fn keeping_objects(mut self) -> Self {
        self.keeps_objects = true;
        self
    }

    /// Adds or updates a cluster, and returns the changed aspects.
    pub fn apply(&mut self, cluster: &Cluster) -> ClusterChange {
        let Some(name) = cluster.metadata.name.as_deref() else {
            return ClusterChange::default();
        };
        let old = self.rows.get(name).cloned();
        let (new, capacity_error) = self.row(name, cluster, old.as_deref());
        let new = Arc::new(new);
        let aspects = match &old {
            None => vec![Aspect::Added],
            Some(old) => changed_aspects(old, &new),
        };
        if aspects.is_empty() {
            release(&mut self.symbols, &new);
        } else {
            self.rows.insert(Arc::clone(&new.name), Arc::clone(&new));
            match &old {
                Some(old) if !self.stale => self.update_snapshot(old, &new, &aspects),
                _ => self.stale = true,
            }
            self.stale |= self.has_many_unused_taint_lists();
            if let Some(old) = &old {
                release(&mut self.symbols, old);
            }
        }
        ClusterChange {
            aspects,
            capacity_error,
        }
    }

    /// Removes a cluster. Reports whether the fleet contained the cluster.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(row) = self.rows.remove(name) else {
            return false;
        };
        release(&mut self.symbols, &row);
        self.stale = true;
        true
    }

    /// Adds or updates a ClusterScore, and returns the clusters whose scores changed. They may be unknown to the fleet.
    pub fn apply_score(&mut self, object: &ClusterScore) -> Vec<Arc<str>> {
        let changed = self.scores.apply(object);
        if !changed.is_empty() {
            self.publish_scores();
        }
        changed
    }

    /// Removes a ClusterScore, and returns its cluster.
    pub fn remove_score(&mut self, name: &str) -> Option<Arc<str>> {
        let changed = self.scores.remove(name)?;
        self.publish_scores();
        Some(changed)
    }

    /// Returns the names of all ClusterScores.
    pub fn score_names(&self) -> impl Iterator<Item = &String> {
        self.scores.names()
    }

    /// Returns the spec of a ClusterScore.
    pub fn score(&self, name: &str) -> Option<&ClusterScoreSpec> {
        self.scores.spec(name)
    }

    fn publish_scores(&mut self) {
        let snapshot = Arc::make_mut(&mut self.snapshot);
        snapshot.scores = Arc::clone(self.scores.by_cluster());
    }

    /// Returns a snapshot of the current state.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if self.stale {
            self.rebuild_snapshot();
        }
        Arc::clone(&self.snapshot)
    }

    /// Converts a cluster to a row. The new row shares unchanged parts with `old`, the previous row of the cluster.
    fn row(
        &mut self,
        name: &str,
        cluster: &Cluster,
        old: Option<&Row>,
    ) -> (Row, Option<CapacityError>) {
        let spec = &cluster.spec;
        let status = cluster.status.as_ref();
        let labels = cluster.metadata.labels.iter().flatten();
        let labels = labels
            .map(|(key, value)| (self.intern(key), self.intern(value)))
            .collect();
        let taints: Vec<RepellingTaint> = spec
            .taints
            .iter()
            .filter_map(RepellingTaint::read)
            .collect();
        let (taint_list, taints) = self.taint_list(taints);
        let (capacity, capacity_error) =
            status.map_or_else(Default::default, |status| Capacity::read(cluster, status));
        self.number_resources(&capacity);
        let capacity = match old {
            Some(old) if *old.capacity == capacity => Arc::clone(&old.capacity),
            _ => Arc::new(capacity),
        };
        let enablements = status.map_or(&[][..], |status| &status.api_enablements);
        let apis = match old {
            Some(old) if self.catalogue.represents(&old.apis, enablements) => Arc::clone(&old.apis),
            _ => self.number_apis(enablements),
        };
        let row = Row {
            name: old.map_or_else(|| Arc::from(name), |old| Arc::clone(&old.name)),
            labels,
            provider: self.intern_present(spec.provider.as_deref()),
            region: self.intern_present(spec.region.as_deref()),
            zones: spec.zones.iter().map(|zone| self.intern(zone)).collect(),
            taints,
            taint_list,
            apis,
            apis_complete: status.is_some_and(ClusterStatus::has_complete_apis),
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            capacity,
            object: self.keeps_objects.then(|| object(cluster, old)),
        };
        (row, capacity_error)
    }

    fn intern(&mut self, text: &str) -> Interned {
        let (symbol, text) = self.symbols.acquire(text);
        Interned { symbol, text }
    }

    fn intern_present(&mut self, text: Option<&str>) -> Option<Interned> {
        text.filter(|text| !text.is_empty())
            .map(|text| self.intern(text))
    }

    fn taint_list(&mut self, taints: Vec<RepellingTaint>) -> (u32, Arc<[RepellingTaint]>) {
        if let Some((known, &index)) = self.taint_list_indices.get_key_value(&*taints) {
            return (index, Arc::clone(known));
        }
        let taints: Arc<[RepellingTaint]> = taints.into();
        let index = u32::try_from(self.taint_lists.len()).unwrap_or(u32::MAX);
        self.taint_list_indices.insert(Arc::clone(&taints), index);
        Arc::make_mut(&mut self.taint_lists).push(Arc::clone(&taints));
        (index, taints)
    }

    fn number_apis(&mut self, enablements: &[berth_api::cluster::ApiEnablement]) -> Arc<[u32]> {
        if let Some(numbers) = self.catalogue.numbers(enablements) {
            return numbers.into();
        }
        let catalogue = Arc::make_mut(&mut self.catalogue);
        catalogue.extend(enablements);
        catalogue.numbers(enablements).unwrap_or_default().into()
    }

    fn number_resources(&mut self, capacity: &Capacity) {
        for name in capacity.free.keys() {
            if !self.resources.contains_key(name) {
                let id = self.resources.len();
                Arc::make_mut(&mut self.resources).insert(name.clone(), id);
            }
        }
    }

    /// Updates the snapshot after a change of a cluster that the snapshot already contains.
    fn update_snapshot(&mut self, old: &Row, new: &Arc<Row>, aspects: &[Aspect]) {
        let Some(ordinal) = self.snapshot.ordinal(&new.name) else {
            self.stale = true;
            return;
        };
        let snapshot = Arc::make_mut(&mut self.snapshot);
        snapshot.resources = Arc::clone(&self.resources);
        if aspects
            .iter()
            .any(|aspect| !matches!(aspect, Aspect::Capacity | Aspect::Object))
        {
            let topology = Arc::make_mut(&mut snapshot.topology);
            topology.symbols = self.symbols.symbols().clone();
            topology.taint_lists = Arc::clone(&self.taint_lists);
            topology.catalogue = Arc::clone(&self.catalogue);
            topology.update(ordinal, old, new);
        }
        if let Some(block) = snapshot.blocks.get_mut(ordinal / BLOCK) {
            let resources = &self.resources;
            Arc::make_mut(block).replace(ordinal % BLOCK, Arc::clone(new), |name| {
                resources.get(name).copied()
            });
        }
    }

    /// Rebuilds the snapshot from all rows.
    fn rebuild_snapshot(&mut self) {
        self.prune_taint_lists();
        let rows: Vec<Arc<Row>> = self.rows.values().cloned().collect();
        let topology = Topology::new(
            rows.iter().map(|row| &**row),
            self.symbols.symbols().clone(),
            Arc::clone(&self.taint_lists),
            Arc::clone(&self.catalogue),
        );
        let blocks = rows.chunks(BLOCK).map(|rows| {
            Arc::new(Block::new(rows.to_vec(), |name| {
                self.resources.get(name).copied()
            }))
        });
        self.snapshot = Arc::new(Snapshot {
            topology: Arc::new(topology),
            blocks: blocks.collect(),
            resources: Arc::clone(&self.resources),
            scores: Arc::clone(self.scores.by_cluster()),
        });
        self.stale = false;
    }

    /// Reports whether most of the lists of taints are unused.
    fn has_many_unused_taint_lists(&self) -> bool {
        self.taint_lists.len() > 2 * self.rows.len() + 64
    }

    /// Removes the unused lists of taints if most lists are unused.
    fn prune_taint_lists(&mut self) {
        if !self.has_many_unused_taint_lists() {
            return;
        }
        let untainted: Arc<[RepellingTaint]> = Arc::from([]);
        self.taint_lists = Arc::new(vec![Arc::clone(&untainted)]);
        self.taint_list_indices = BTreeMap::from([(untainted, 0)]);
        let names: Vec<Arc<str>> = self.rows.keys().cloned().collect();
        for name in names {
            let Some(taints) = self.rows.get(&name).map(|row| row.taints.to_vec()) else {
                continue;
            };
            let (index, _) = self.taint_list(taints);
            if let Some(row) = self.rows.get_mut(&name) {
                Arc::make_mut(row).taint_list = index;
            }
        }
    }
}

fn release(symbols: &mut SymbolTable, row: &Row) {
    for symbol in row.symbols() {
        symbols.release(symbol);
    }
}

fn same(old: Option<&Arc<Cluster>>, new: Option<&Arc<Cluster>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}

/// Returns the Cluster object to keep. If only `resourceVersion` or `managedFields` changed, returns the old object.
fn object(cluster: &Cluster, old: Option<&Row>) -> Arc<Cluster> {
    let mut new = cluster.clone();
    new.metadata.managed_fields = None;
    if let Some(old) = old.and_then(|row| row.object.as_ref()) {
        let version = std::mem::take(&mut new.metadata.resource_version);
        new.metadata
            .resource_version
            .clone_from(&old.metadata.resource_version);
        if **old == new {
            return Arc::clone(old);
        }
        new.metadata.resource_version = version;
    }
    Arc::new(new)
}

fn changed_aspects(old: &Row, new: &Row) -> Vec<Aspect> {
    let fields = old.provider != new.provider || old.region != new.region || old.zones != new.zones;
    [
        (old.labels != new.labels, Aspect::Labels),
        (fields, Aspect::Fields),
        (old.taint_list != new.taint_list, Aspect::Taints),
        (
            old.apis_complete != new.apis_complete
                || (!Arc::ptr_eq(&old.apis, &new.apis) && old.apis != new.apis),
            Aspect::Apis,
        ),
        (!Arc::ptr_eq(&old.capacity, &new.capacity), Aspect::Capacity),
        (old.deleting != new.deleting, Aspect::Deletion),
        (
            !same(old.object.as_ref(), new.object.as_ref()),
            Aspect::Object,
        ),
    ]
    .into_iter()
    .filter_map(|(changed, aspect)| changed.then_some(aspect))
    .collect()
}
