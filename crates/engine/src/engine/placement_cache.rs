//! The engine's cache of filter results, tiers and static weights.
//!
//! These results depend only on the placement and on the [`Topology`], which contains the properties of clusters that
//! placement filters read. The engine never caches decisions, because they also depend on free capacity and on the
//! binding.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plugin_calls::Calls;
use super::plugin_lists::{ListedPlugin, Skipped};
use super::trace::Trace;
use crate::cluster_set::Bits;
use crate::fleet::topology::Topology;
use crate::framework::{Filter, PlacementContext, PluginError, Point, Share};
use crate::request::{CompiledPlacement, Strategy};

/// The tier of clusters that no affinity of the affinity term matches.
const NO_TIER: u32 = 1000;

/// The cached results for one placement and one topology.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The clusters that pass all placement filters that apply to every cluster. Clusters that are being deleted are
    /// not included.
    pub(super) passing: Bits,
    /// The clusters that pass the other placement filters. These filters exempt the clusters that already have the
    /// workload (`PlacementFilter::spares_prior`). `None` means that there are no such filters, or that every cluster
    /// passes them.
    pub(super) passing_if_new: Option<Bits>,
    /// The tier of each cluster, indexed by ordinal. `None` if the placement has no affinity terms.
    pub(super) tiers: Option<Vec<u32>>,
    /// The static weight rules of the placement. Each entry contains the clusters that a rule matches, and the weight
    /// of the rule.
    pub(super) static_weights: Vec<(Bits, i64)>,
}

impl Prepared {
    pub(super) fn new<'a, T: Trace>(
        context: &PlacementContext<'_>,
        filters: impl Iterator<Item = (usize, &'a ListedPlugin<Filter>)>,
        calls: &mut Calls<'_, T>,
    ) -> Result<Self, PluginError> {
        let fleet = &context.snapshot().topology;
        let mut passing = Bits::all(fleet.len());
        passing.subtract(&fleet.deleting);
        let mut passing_if_new: Option<Bits> = None;
        for (index, listed) in filters {
            if matches!(listed.plugin, Filter::Binding(_)) {
                continue;
            }
            let (mask, spares_prior) = calls.call(Point::Filter, index, listed, |filter| {
                Ok(match filter {
                    Filter::Placement(filter) => (filter.mask(context), filter.spares_prior()),
                    Filter::Binding(_) => (None, false),
                })
            })?;
            let Some(mask) = mask else {
                continue;
            };
            if spares_prior {
                match &mut passing_if_new {
                    Some(all) => all.intersect(&mask),
                    None => passing_if_new = Some(mask),
                }
            } else {
                passing.intersect(&mask);
            }
        }
        Ok(Self {
            passing,
            passing_if_new,
            tiers: tiers(context),
            static_weights: static_weights(context),
        })
    }

    /// Returns the current clusters of the workload that pass only because they already have it. Returns `None` if
    /// there is no such cluster.
    pub(super) fn spared(&self, current: &[Share]) -> Option<Bits> {
        let open = self.passing_if_new.as_ref()?;
        let mut spared: Option<Bits> = None;
        for share in current.iter().filter(|share| !open.contains(share.ordinal)) {
            spared
                .get_or_insert_with(|| Bits::none(self.passing.len()))
                .insert(share.ordinal);
        }
        spared
    }
}

fn tiers(context: &PlacementContext<'_>) -> Option<Vec<u32>> {
    if context.placement().affinity().is_some() {
        return None;
    }
    let term = context.term()?;
    let fleet = &context.snapshot().topology;
    let mut tiers = vec![NO_TIER; fleet.len()];
    let affinities = std::iter::once(term.primary()).chain(term.overflow());
    // A cluster belongs to its first matching tier, so the loop assigns the tiers in reverse order.
    for (tier, affinity) in affinities.enumerate().collect::<Vec<_>>().into_iter().rev() {
        for ordinal in affinity.mask(fleet).iter() {
            tiers[ordinal] = u32::try_from(tier).unwrap_or(NO_TIER);
        }
    }
    Some(tiers)
}

fn static_weights(context: &PlacementContext<'_>) -> Vec<(Bits, i64)> {
    let Strategy::StaticWeights(rules) = context.placement().strategy() else {
        return Vec::new();
    };
    let fleet = &context.snapshot().topology;
    rules
        .iter()
        .map(|(affinity, weight)| (affinity.mask(fleet), *weight))
        .collect()
}

/// The key of a cache entry. A lookup also compares the placement and the topology of the entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) placement_hash: u64,
    pub(super) term: Option<usize>,
    pub(super) is_workload: bool,
    /// The plugins that skip their filters in the attempt.
    pub(super) skipped: Skipped,
}

#[derive(Debug)]
struct Entry {
    placement: Arc<CompiledPlacement>,
    /// The topology, which a lookup compares by address. The entry keeps the topology alive, so that no other topology
    /// can reuse this address.
    topology: Arc<Topology>,
    prepared: Arc<Prepared>,
    last_used: u64,
}

/// A cache of the results for the most recently used placements.
#[derive(Debug)]
pub(super) struct PreparedCache {
    entries: BTreeMap<Key, Entry>,
    capacity: usize,
    clock: u64,
}

impl PreparedCache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity,
            clock: 0,
        }
    }

    /// Returns the cached results for a placement and a topology. On a cache miss, calls `prepare` and caches its
    /// results.
    pub(super) fn get_or_prepare(
        &mut self,
        key: Key,
        placement: &Arc<CompiledPlacement>,
        topology: &Arc<Topology>,
        prepare: impl FnOnce() -> Result<Prepared, PluginError>,
    ) -> Result<Arc<Prepared>, PluginError> {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key)
            && Arc::ptr_eq(&entry.topology, topology)
            && (Arc::ptr_eq(&entry.placement, placement) || *entry.placement == **placement)
        {
            entry.last_used = self.clock;
            return Ok(Arc::clone(&entry.prepared));
        }
        let prepared = Arc::new(prepare()?);
        if self.capacity > 0 {
            if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
                self.evict_half();
            }
            let entry = Entry {
                placement: Arc::clone(placement),
                topology: Arc::clone(topology),
                prepared: Arc::clone(&prepared),
                last_used: self.clock,
            };
            self.entries.insert(key, entry);
        }
        Ok(prepared)
    }

    /// Evicts the less recently used half of the entries.
    fn evict_half(&mut self) {
        let mut ages: Vec<u64> = self.entries.values().map(|entry| entry.last_used).collect();
        ages.sort_unstable();
        if let Some(&median) = ages.get(ages.len() / 2) {
            self.entries.retain(|_, entry| entry.last_used > median);
        }
    }
}
