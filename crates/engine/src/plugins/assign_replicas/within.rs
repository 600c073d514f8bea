//! Proportional division between minimums and maximums.

use super::divide::{Party, divide};
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
/// Each round divides the replicas among the open slots. If the slots below their minimums lack more replicas than the
/// slots above their maximums have too many, the former get their minimums and are closed, and otherwise the latter get
/// their maximums.
pub(super) fn divide_within(replicas: i64, slots: &[Slot], ties: TieOrder) -> Vec<i64> {
    let mut assigned: Vec<i64> = slots.iter().map(|slot| slot.low).collect();
    let mut open: Vec<usize> = (0..slots.len()).collect();
    let mut left = replicas;
    while !open.is_empty() {
        let is_unweighted = open.iter().all(|&index| slots[index].weight <= 0);
        let parties: Vec<Party> = open
            .iter()
            .map(|&index| Party {
                ordinal: slots[index].ordinal,
                votes: if is_unweighted {
                    1
                } else {
                    slots[index].weight
                },
            })
            .collect();
        let given = divide(left, &parties, ties);
        let (mut missing, mut surplus) = (0_i64, 0_i64);
        for (&index, &given) in open.iter().zip(&given) {
            assigned[index] = given.clamp(slots[index].low, slots[index].high);
            missing += (slots[index].low - given).max(0);
            surplus += (given - slots[index].high).max(0);
        }
        if missing == surplus {
            break;
        }
        let mut given = given.into_iter();
        open.retain(|&index| {
            let given = given.next().unwrap_or(0);
            let closes = if missing > surplus {
                given < slots[index].low
            } else {
                given > slots[index].high
            };
            if closes {
                left -= assigned[index];
            }
            !closes
        });
    }
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
