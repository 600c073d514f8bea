//! Assignment within the limits of the annotation `scheduling.berth/replica-limits`.
//!
//! The assignment starts from the current replicas, moved into the limits, and then only adds or only removes replicas.
//! No other assignment within the limits moves fewer replicas. Three cases start from nothing instead: a requested
//! rescheduling, static weights whose rules changed, and an even distribution, which has its own order.

use berth_api::replica_limits::{ReplicaFit, ReplicaSpread};

use super::distribution::{Place, Preference, Start, by_preference, evenly};
use super::dynamic::Spread;
use super::{AssignError, AssignInput, Obstacle, Party, static_weights};
use crate::{Candidate, CompiledLimits, LimitReached, Mode, RulesChange, Share, Strategy};

/// The use of the capacity of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CapacityUse {
    Counts,
    /// As in Karmada, static weights do not depend on the capacity.
    Ignored,
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
    let total = possible.min(replicas);
    if total < replicas && (limits.fit() == ReplicaFit::All || total == 0) {
        return Err(AssignError::MaximumsBelowReplicas {
            possible,
            replicas,
            obstacles: obstacles(input, &places),
        });
    }
    let assigned = match limits.spread() {
        ReplicaSpread::Even => evenly(&places, total, input.ties()),
        ReplicaSpread::Preferred => by_preference(
            &places,
            total,
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
        recorder.limited(total, &shares, reached);
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
