//! Assignment within the limits of the annotation `scheduling.berth/replica-limits`.
//!
//! The assignment starts from the current replicas, moved into the limits, and then only adds or only removes replicas.
//! No other assignment within the limits moves fewer replicas. Three cases start from nothing instead: a requested
//! rescheduling, static weights whose rules changed, and an even distribution, which has its own order.

use std::cmp::Reverse;

use berth_api::replica_limits::{ReplicaFit, ReplicaSpread};

use super::dynamic::Spread;
use super::within::{Slot, divide_within};
use super::{AssignError, AssignInput, Obstacle, Party, static_weights};
use crate::{
    Candidate, CompiledLimits, LimitReached, Mode, RulesChange, Share, Strategy, TieOrder,
};

/// The method by which the strategy of the placement prefers clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preference {
    /// By static weights.
    Weights,
    /// By free capacity.
    Capacity(Spread),
}

/// The use of the capacity of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CapacityUse {
    Counts,
    /// As in Karmada, static weights do not depend on the capacity.
    Ignored,
}

/// The start of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The current replicas, which move only if the limits require it.
    Current,
    /// No replicas.
    Empty,
}

/// A selected cluster.
#[derive(Clone, Copy, Debug)]
struct Place {
    ordinal: usize,
    /// The replicas at the start of the assignment.
    current: i64,
    /// The minimum and the maximum that the limits, the capacity and the weights leave.
    low: i64,
    high: i64,
    /// The weight among the clusters: the static weight, or the capacity.
    weight: i64,
    /// The number of further replicas that fit.
    free: i64,
}

/// Returns the sum of the minimums of the clusters.
pub(super) fn minimums(input: &AssignInput<'_>, selected: &[Candidate]) -> i64 {
    selected.iter().fold(0_i64, |sum, candidate| {
        sum.saturating_add(input.context.minimum(candidate.ordinal))
    })
}

/// Returns an error if the minimums of the clusters exceed the replicas of the workload. A workload that is scaled to 0
/// has no minimums.
pub(super) fn check_minimums(
    input: &AssignInput<'_>,
    selected: &[Candidate],
) -> Result<(), AssignError> {
    let (needed, replicas) = (minimums(input, selected), input.request.replicas());
    if replicas > 0 && needed > replicas {
        return Err(AssignError::MinimumsExceedReplicas { needed, replicas });
    }
    Ok(())
}

/// Assigns `replicas`. With `"fit": "BestEffort"`, the sum of the shares may be lower.
pub(super) fn assign(
    input: &AssignInput<'_>,
    limits: &CompiledLimits,
    selected: &[Candidate],
    replicas: i64,
) -> Result<Vec<Share>, AssignError> {
    let preference = preference(input)?;
    if replicas <= 0 {
        return Ok(Vec::new());
    }
    let places = places(input, limits, preference, selected)?;
    let possible = places
        .iter()
        .fold(0_i64, |sum, place| sum.saturating_add(place.high));
    let placed = possible.min(replicas);
    if placed < replicas && (limits.fit() == ReplicaFit::All || placed == 0) {
        return Err(AssignError::MaximumsBelowReplicas {
            possible,
            replicas,
            obstacles: obstacles(input, &places),
        });
    }
    let assigned = match limits.spread() {
        ReplicaSpread::Even => evenly(&places, placed, input.ties()),
        ReplicaSpread::Preferred => by_preference(
            &places,
            placed,
            preference,
            start(input, limits, preference),
            input.ties(),
        ),
    };
    let mut shares: Vec<Share> = places
        .iter()
        .zip(assigned)
        .map(|(place, replicas)| Share {
            ordinal: place.ordinal,
            replicas,
        })
        .collect();
    if let Some(recorder) = input.recorder {
        let reached = |share: &Share| {
            let minimum = input.context.minimum(share.ordinal);
            if input.context.maximum(share.ordinal) == Some(share.replicas) {
                Some(LimitReached::AtMost(share.replicas))
            } else {
                let is_minimum = minimum > 0 && minimum == share.replicas;
                is_minimum.then_some(LimitReached::AtLeast(minimum))
            }
        };
        let reached = shares.iter().map(reached).collect();
        recorder.limited(placed, &shares, reached);
    }
    shares.retain(|share| share.replicas > 0);
    Ok(shares)
}

fn preference(input: &AssignInput<'_>) -> Result<Preference, AssignError> {
    match input.request.placement().strategy() {
        Strategy::StaticWeights(_) => Ok(Preference::Weights),
        Strategy::DynamicWeights => Ok(Preference::Capacity(Spread::All)),
        Strategy::Aggregated => Ok(Preference::Capacity(Spread::Fewest)),
        // The engine applies no limits to duplicated replicas.
        Strategy::Duplicated => Err(AssignError::NothingSelected),
        Strategy::Unsupported {
            scheduling,
            division,
        } => Err(AssignError::Unsupported {
            scheduling: scheduling.clone(),
            division: division.clone(),
        }),
    }
}

fn start(input: &AssignInput<'_>, limits: &CompiledLimits, preference: Preference) -> Start {
    let rules_hold = preference != Preference::Weights || limits.rules() == RulesChange::Unchanged;
    if input.mode() == Mode::Steady && rules_hold {
        Start::Current
    } else {
        Start::Empty
    }
}

/// Returns the selected clusters, sorted by name, with their bounds.
fn places(
    input: &AssignInput<'_>,
    limits: &CompiledLimits,
    preference: Preference,
    selected: &[Candidate],
) -> Result<Vec<Place>, AssignError> {
    let weighed = match preference {
        Preference::Weights => static_weights::weighed(input, selected),
        Preference::Capacity(_) => Vec::new(),
    };
    let capacity = if preference != Preference::Weights || limits.count_capacity() {
        CapacityUse::Counts
    } else {
        CapacityUse::Ignored
    };
    let mut places = Vec::with_capacity(selected.len());
    for candidate in selected {
        let ordinal = candidate.ordinal;
        let (min, max) = (
            input.context.minimum(ordinal),
            input.context.maximum(ordinal),
        );
        if let Some(max) = max.filter(|max| *max < min) {
            return Err(AssignError::Contradiction {
                cluster: name(input, ordinal),
                min,
                max,
            });
        }
        let free = input
            .context
            .bounds(ordinal)
            .map_or(0, |bounds| bounds.free);
        let available = free.saturating_add(candidate.assigned).max(0);
        let room = match capacity {
            CapacityUse::Counts => room(input, candidate, available),
            CapacityUse::Ignored => room(input, candidate, i64::MAX),
        };
        if min > room && limits.fit() == ReplicaFit::All {
            return Err(AssignError::NoRoomForMinimum {
                cluster: name(input, ordinal),
                min,
                room,
            });
        }
        let low = min.min(room);
        let weight = match preference {
            Preference::Weights if weighed.is_empty() => 1,
            Preference::Weights => weight_of(&weighed, ordinal),
            Preference::Capacity(_) => available,
        };
        let high = if weight == 0 && preference == Preference::Weights {
            low
        } else {
            max.unwrap_or(i64::MAX).min(room)
        };
        places.push(Place {
            ordinal,
            current: candidate.assigned,
            low,
            high,
            weight,
            free: free.max(0),
        });
    }
    places.sort_unstable_by_key(|place| place.ordinal);
    Ok(places)
}

fn weight_of(weighed: &[Party], ordinal: usize) -> i64 {
    let mut weighed = weighed.iter();
    let found = weighed.find(|party| party.ordinal == ordinal);
    found.map_or(0, |party| party.votes)
}

/// Returns the number of replicas for which a cluster has room: its capacity, or its running replicas if they exceed the
/// capacity.
fn room(input: &AssignInput<'_>, candidate: &Candidate, capacity: i64) -> i64 {
    let running = match input.mode() {
        Mode::Steady => candidate.assigned,
        Mode::Fresh => 0,
    };
    let room = capacity.max(running);
    if input.context.may_grow(candidate.ordinal) {
        room
    } else {
        room.min(candidate.assigned)
    }
}

/// Distributes `replicas` so that the numbers differ by at most one between the bounds. Running replicas decide which
/// clusters get one more, then the weights, then the order of names.
fn evenly(places: &[Place], replicas: i64, ties: TieOrder) -> Vec<i64> {
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
fn by_preference(
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
    if sum < replicas {
        grow(places, &moved, replicas, preference, ties)
    } else if sum > replicas {
        shrink(places, &moved, replicas, preference, ties)
    } else {
        moved
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

/// Returns the limits and capacities that leave too little room, for a message.
fn obstacles(input: &AssignInput<'_>, places: &[Place]) -> Vec<Obstacle> {
    let obstacles = places.iter().map(|place| Obstacle {
        cluster: name(input, place.ordinal),
        replicas: place.high,
        is_limit: input.context.maximum(place.ordinal) == Some(place.high),
    });
    obstacles.collect()
}

fn name(input: &AssignInput<'_>, ordinal: usize) -> String {
    let name = input.context.binding().snapshot().name(ordinal);
    name.map_or_else(String::new, ToString::to_string)
}
