//! Distribution of replicas among clusters with bounds: evenly, or by the strategy of the placement.

use std::cmp::{Ordering, Reverse};

use super::dynamic::Spread;
use super::within::{Slot, divide_within};
use crate::TieOrder;

/// The method by which the strategy of the placement prefers clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// Static weights.
    Weights,
    /// Free capacity.
    Capacity(Spread),
}

/// The start of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The current replicas, which move only if the limits require it.
    Current,
    /// No replicas.
    Empty,
}

/// A selected cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ordinal: usize,
    /// The replicas at the start of the assignment.
    pub(super) current: i64,
    /// The minimum and the maximum that the limits, the capacity and the weights leave.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The weight among the clusters: the static weight, or the capacity.
    pub(super) weight: i64,
    /// The number of further replicas that fit.
    pub(super) free: i64,
}

/// Distributes `replicas` so that the numbers differ by at most one between the bounds. Running replicas decide which
/// clusters get one more, then the weights, then the order of names.
pub(super) fn evenly(places: &[Place], replicas: i64, ties: TieOrder) -> Vec<i64> {
    let at = |level: i64| -> Vec<i64> {
        places
            .iter()
            .map(|place| level.clamp(place.low, place.high))
            .collect()
    };
    let sum = |level: i64| -> i64 { at(level).iter().sum() };
    // The highest level whose sum does not exceed the replicas.
    let (mut level, mut above) = (0, replicas + 1);
    while above - level > 1 {
        let middle = level + (above - level) / 2;
        if sum(middle) <= replicas {
            level = middle;
        } else {
            above = middle;
        }
    }
    let mut assigned = at(level);
    let rest = replicas - assigned.iter().sum::<i64>();
    let mut open: Vec<usize> = (0..places.len())
        .filter(|&index| places[index].low <= level && level < places[index].high)
        .collect();
    if ties == TieOrder::Descending {
        open.reverse();
    }
    open.sort_by_key(|&index| {
        let place = &places[index];
        Reverse((place.current > level, place.weight))
    });
    for index in open.into_iter().take(usize::try_from(rest).unwrap_or(0)) {
        assigned[index] += 1;
    }
    assigned
}

/// Distributes `replicas` by the strategy of the placement.
pub(super) fn by_preference(
    places: &[Place],
    replicas: i64,
    preference: Preference,
    start: Start,
    ties: TieOrder,
) -> Vec<i64> {
    if start == Start::Empty {
        return from_nothing(places, replicas, preference, ties);
    }
    let moved: Vec<i64> = places
        .iter()
        .map(|place| place.current.clamp(place.low, place.high))
        .collect();
    let sum: i64 = moved.iter().sum();
    match sum.cmp(&replicas) {
        Ordering::Less => grow(places, &moved, replicas, preference, ties),
        Ordering::Equal => moved,
        Ordering::Greater => shrink(places, &moved, replicas, preference, ties),
    }
}

fn from_nothing(
    places: &[Place],
    replicas: i64,
    preference: Preference,
    ties: TieOrder,
) -> Vec<i64> {
    let mut slots: Vec<Slot> = places
        .iter()
        .map(|place| Slot::new(place.ordinal, place.weight, place.low, place.high))
        .collect();
    if preference == Preference::Capacity(Spread::Fewest) {
        use_fewest(&mut slots, replicas, |slot| slot.low > 0);
    }
    divide_within(replicas, &slots, ties)
}

/// Adds replicas to `moved` until their sum is `replicas`.
fn grow(
    places: &[Place],
    moved: &[i64],
    replicas: i64,
    preference: Preference,
    ties: TieOrder,
) -> Vec<i64> {
    if preference == Preference::Weights {
        let slots = places.iter().zip(moved);
        let slots: Vec<Slot> = slots
            .map(|(place, &moved)| Slot::new(place.ordinal, place.weight, moved, place.high))
            .collect();
        return divide_within(replicas, &slots, ties);
    }
    // As without limits, only the missing replicas are divided.
    let missing = replicas - moved.iter().sum::<i64>();
    let mut slots: Vec<Slot> = places
        .iter()
        .zip(moved)
        .map(|(place, moved)| Slot::new(place.ordinal, place.free, 0, place.high - moved))
        .collect();
    if preference == Preference::Capacity(Spread::Fewest) {
        let used: Vec<usize> = places
            .iter()
            .zip(moved)
            .filter(|(_, moved)| **moved > 0)
            .map(|(place, _)| place.ordinal)
            .collect();
        use_fewest(&mut slots, missing, |slot| {
            used.binary_search(&slot.ordinal).is_ok()
        });
    }
    let added = divide_within(missing, &slots, ties);
    moved
        .iter()
        .zip(added)
        .map(|(moved, added)| moved + added)
        .collect()
}

/// Removes replicas from `moved` until their sum is `replicas`.
fn shrink(
    places: &[Place],
    moved: &[i64],
    replicas: i64,
    preference: Preference,
    ties: TieOrder,
) -> Vec<i64> {
    let slots = places.iter().zip(moved).map(|(place, &moved)| {
        let weight = match preference {
            Preference::Weights => place.weight,
            Preference::Capacity(_) => moved,
        };
        Slot::new(place.ordinal, weight, place.low, moved)
    });
    let mut slots: Vec<Slot> = slots.collect();
    if preference == Preference::Capacity(Spread::Fewest) {
        use_fewest(&mut slots, replicas, |_| false);
    }
    divide_within(replicas, &slots, ties)
}

/// Closes slots, so that as few slots as possible get more than their minimum: first those that `is_used`, then those
/// that take the most.
fn use_fewest(slots: &mut [Slot], replicas: i64, is_used: impl Fn(&Slot) -> bool) {
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_key(|&index| Reverse((is_used(&slots[index]), slots[index].high)));
    let mut sum: i64 = slots.iter().map(|slot| slot.low).sum();
    for index in order {
        let slot = &mut slots[index];
        if sum >= replicas {
            slot.high = slot.low;
        }
        sum = sum.saturating_add(slot.high - slot.low);
    }
}
