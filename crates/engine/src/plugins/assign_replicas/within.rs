//! Proportional division between minimums and maximums.

use std::collections::BinaryHeap;

use super::divide::{Claim, Party, seats_above};
use crate::TieOrder;

/// A cluster that takes part in the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) ordinal: usize,
    pub(super) weight: i64,
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Slot {
    pub(super) fn new(ordinal: usize, weight: i64, low: i64, high: i64) -> Self {
        debug_assert!(low <= high, "{low} > {high}");
        Self {
            ordinal,
            weight,
            low,
            high,
        }
    }
}

/// Divides replicas in proportion to the weights of the slots, and within their bounds. The sum of the minimums must not
/// exceed the replicas, and the sum of the maximums must reach them.
///
/// The minimums are given first. Then the next replica always goes to the slot with the greatest claim that is below its
/// maximum, as in [`divide`](super::divide::divide). Slots without a weight get more than their minimum only after all
/// others have their maximum.
pub(super) fn divide_within(replicas: i64, slots: &[Slot], ties: TieOrder) -> Vec<i64> {
    // Maximums above the replicas do not bind, and their sum could overflow.
    let high = |slot: &Slot| slot.high.min(replicas);
    let full = |slot: &Slot| {
        if slot.weight > 0 {
            high(slot)
        } else {
            slot.low
        }
    };
    let weights_suffice = slots.iter().map(full).sum::<i64>() >= replicas;
    let parties: Vec<(Party, i64, i64)> = slots
        .iter()
        .map(|slot| {
            let (votes, low) = if weights_suffice {
                (slot.weight.max(0), slot.low)
            } else {
                (i64::from(slot.weight <= 0), full(slot))
            };
            let ordinal = slot.ordinal;
            (Party { ordinal, votes }, low, high(slot))
        })
        .collect();
    let given_above = |threshold: f64| -> Vec<i64> {
        let given = parties.iter();
        given
            .map(|(party, low, high)| seats_above(party.votes, threshold).clamp(*low, *high))
            .collect()
    };
    // Searches a threshold such that few replicas are left. The bits of positive numbers have the order of the numbers.
    let few = i64::try_from(slots.len()).unwrap_or(i64::MAX);
    let sum = |given: &[i64]| given.iter().sum::<i64>();
    let (mut below, mut above) = (0, f64::MAX.to_bits());
    let mut assigned = given_above(f64::MAX);
    while above - below > 1 && replicas - sum(&assigned) > few {
        let middle = below + (above - below) / 2;
        let given = given_above(f64::from_bits(middle));
        if sum(&given) <= replicas {
            (assigned, above) = (given, middle);
        } else {
            below = middle;
        }
    }
    let claim = |index: usize, given: i64| {
        let (party, _, high) = &parties[index];
        (party.votes > 0 && given < *high).then(|| Claim::new(index, party, given, ties))
    };
    let mut claims: BinaryHeap<Claim> = assigned
        .iter()
        .enumerate()
        .filter_map(|(index, given)| claim(index, *given))
        .collect();
    for _ in sum(&assigned)..replicas {
        let Some(first) = claims.pop() else { break };
        assigned[first.index] += 1;
        claims.extend(claim(first.index, assigned[first.index]));
    }
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::divide::divide;
    use super::*;

    fn slots() -> impl Strategy<Value = Vec<Slot>> {
        let slot = (0_i64..20, 0_i64..10, 0_i64..20);
        prop::collection::vec(slot, 1..8).prop_map(|slots| {
            let slots = slots.into_iter().enumerate();
            slots
                .map(|(ordinal, (weight, low, more))| Slot::new(ordinal, weight, low, low + more))
                .collect()
        })
    }

    fn ties() -> impl Strategy<Value = TieOrder> {
        prop::sample::select(vec![TieOrder::Ascending, TieOrder::Descending])
    }

    proptest! {
        #[test]
        fn sums_are_exact_and_bounds_hold(slots in slots(), part in 0_i64..=100, ties in ties()) {
            let (low, high): (i64, i64) = (slots.iter().map(|slot| slot.low).sum(), slots.iter().map(|slot| slot.high).sum());
            let replicas = low + (high - low) * part / 100;
            let assigned = divide_within(replicas, &slots, ties);
            prop_assert_eq!(assigned.iter().sum::<i64>(), replicas);
            for (slot, assigned) in slots.iter().zip(assigned) {
                prop_assert!((slot.low..=slot.high).contains(&assigned), "{slot:?}: {assigned}");
            }
        }

        #[test]
        fn one_more_replica_takes_none_from_another_cluster(slots in slots(), part in 0_i64..100, ties in ties()) {
            let (low, high): (i64, i64) = (slots.iter().map(|slot| slot.low).sum(), slots.iter().map(|slot| slot.high).sum());
            let replicas = low + (high - low) * part / 100;
            prop_assume!(replicas < high);
            let before = divide_within(replicas, &slots, ties);
            let after = divide_within(replicas + 1, &slots, ties);
            let increased = before.iter().zip(&after).filter(|(before, after)| before < after).count();
            prop_assert_eq!(increased, 1, "{:?} -> {:?}", before, after);
        }

        #[test]
        fn bounds_that_bind_nothing_change_nothing(slots in slots(), replicas in 0_i64..200, ties in ties()) {
            let open: Vec<Slot> = slots.iter().map(|slot| Slot { weight: slot.weight.max(1), low: 0, high: replicas, ..*slot }).collect();
            let parties: Vec<Party> = open.iter().map(|slot| Party { ordinal: slot.ordinal, votes: slot.weight }).collect();
            prop_assert_eq!(divide_within(replicas, &open, ties), divide(replicas, &parties, ties));
        }
    }

    #[test]
    fn the_weights_decide_between_the_bounds() {
        let cases = [
            (10, vec![(1, 0, 3), (1, 0, 10), (1, 0, 10)], vec![3, 4, 3]),
            (10, vec![(8, 0, 10), (1, 3, 10), (1, 0, 10)], vec![6, 3, 1]),
            (10, vec![(8, 0, 5), (1, 3, 10), (1, 0, 10)], vec![5, 3, 2]),
            (4, vec![(1, 0, 1), (0, 0, 9), (0, 0, 9)], vec![1, 2, 1]),
        ];
        for (replicas, slots, expected) in cases {
            let slots: Vec<Slot> = slots
                .into_iter()
                .enumerate()
                .map(|(ordinal, (weight, low, high))| Slot::new(ordinal, weight, low, high))
                .collect();
            assert_eq!(
                divide_within(replicas, &slots, TieOrder::Ascending),
                expected
            );
        }
    }
}
