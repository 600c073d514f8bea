//! What depends on the placement and on who is in the fleet, worked out once for both.
//!
//! A result is never remembered, and neither is anything that depends on free capacity or the binding.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bits::Bits;
use crate::filter::{Filter, PlacementContext};
use crate::fleet::topology::Topology;
use crate::request::placement::{CompiledPlacement, Strategy};

/// The tier of clusters that no affinity of the term matches.
const NO_TIER: u32 = 1000;

/// What depends on the placement and on who is in the fleet.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The clusters that pass the placement filters that spare nobody, and are not being deleted.
    pub(crate) passing: Bits,
    /// The clusters that pass the placement filters that spare clusters with the workload; None means all.
    pub(crate) passing_if_new: Option<Bits>,
    /// The tier of each cluster, with affinity terms.
    pub(crate) tiers: Option<Vec<u32>>,
    /// The clusters that each rule of static weights matches, with the weight.
    pub(crate) static_weights: Vec<(Bits, i64)>,
}

impl Prepared {
    pub(crate) fn new(context: &PlacementContext<'_>, filters: &[Filter]) -> Self {
        let fleet = &context.snapshot.topology;
        let mut passing = Bits::all(fleet.len());
        passing.subtract(&fleet.deleting);
        let mut passing_if_new: Option<Bits> = None;
        for filter in filters {
            let Filter::Placement(filter) = filter else {
                continue;
            };
            let Some(mask) = filter.mask(context) else {
                continue;
            };
            if filter.spares_prior() {
                match &mut passing_if_new {
                    Some(all) => all.intersect(&mask),
                    None => passing_if_new = Some(mask),
                }
            } else {
                passing.intersect(&mask);
            }
        }
        Self {
            passing,
            passing_if_new,
            tiers: tiers(context),
            static_weights: static_weights(context),
        }
    }
}

fn tiers(context: &PlacementContext<'_>) -> Option<Vec<u32>> {
    if context.placement.affinity.is_some() {
        return None;
    }
    let term = context.placement.terms.get(context.term?)?;
    let fleet = &context.snapshot.topology;
    let mut tiers = vec![NO_TIER; fleet.len()];
    let affinities = std::iter::once(&term.primary).chain(&term.overflow);
    // A cluster is in the first tier that matches, so the first is written last.
    for (tier, affinity) in affinities.enumerate().collect::<Vec<_>>().into_iter().rev() {
        for ordinal in affinity.mask(fleet).iter() {
            tiers[ordinal] = u32::try_from(tier).unwrap_or(NO_TIER);
        }
    }
    Some(tiers)
}

fn static_weights(context: &PlacementContext<'_>) -> Vec<(Bits, i64)> {
    let Strategy::StaticWeights(rules) = &context.placement.strategy else {
        return Vec::new();
    };
    let fleet = &context.snapshot.topology;
    rules
        .iter()
        .map(|(affinity, weight)| (affinity.mask(fleet), *weight))
        .collect()
}

/// What a preparation is for, besides the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) placement_hash: u64,
    pub(crate) term: Option<usize>,
    pub(crate) is_workload: bool,
}

#[derive(Debug)]
struct Entry {
    placement: Arc<CompiledPlacement>,
    /// Held, so that another fleet cannot take its address.
    topology: Arc<Topology>,
    prepared: Arc<Prepared>,
    last_used: u64,
}

/// Remembers preparations for the placements used last.
#[derive(Debug)]
pub(crate) struct PreparedCache {
    entries: BTreeMap<Key, Entry>,
    capacity: usize,
    clock: u64,
}

impl PreparedCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity,
            clock: 0,
        }
    }

    /// What was prepared for this placement and fleet, or what `prepare` makes of them.
    pub(crate) fn get_or_prepare(
        &mut self,
        key: Key,
        placement: &Arc<CompiledPlacement>,
        topology: &Arc<Topology>,
        prepare: impl FnOnce() -> Prepared,
    ) -> Arc<Prepared> {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&key)
            && Arc::ptr_eq(&entry.topology, topology)
            && (Arc::ptr_eq(&entry.placement, placement) || *entry.placement == **placement)
        {
            entry.last_used = self.clock;
            return Arc::clone(&entry.prepared);
        }
        let prepared = Arc::new(prepare());
        if self.capacity > 0 {
            if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
                self.forget_half();
            }
            let entry = Entry {
                placement: Arc::clone(placement),
                topology: Arc::clone(topology),
                prepared: Arc::clone(&prepared),
                last_used: self.clock,
            };
            self.entries.insert(key, entry);
        }
        prepared
    }

    /// Forgets the half that was not used for longest.
    fn forget_half(&mut self) {
        let mut ages: Vec<u64> = self.entries.values().map(|entry| entry.last_used).collect();
        ages.sort_unstable();
        if let Some(&median) = ages.get(ages.len() / 2) {
            self.entries.retain(|_, entry| entry.last_used > median);
        }
    }
}
