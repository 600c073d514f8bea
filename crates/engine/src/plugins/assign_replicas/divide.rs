//! Proportional division by the Webster method (Sainte-Laguë).
//!
//! The names in this file are those of an election: a party is a cluster, its votes are the weight of the cluster, and
//! a seat is a replica.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::{RemainderRule, TieOrder};

/// A party: a cluster that takes part in a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The ordinal of the cluster, which breaks ties by name.
    pub ordinal: usize,
    /// The votes of the party, which are the weight of the cluster.
    pub votes: i64,
}

/// Divides `seats` among parties in proportion to their votes. Returns the seats of each party, in the order of
/// `parties`.
///
/// The next seat goes to the party with the highest quotient `votes / (2 * seats + 1)`, where `seats` is the number of
/// seats that the party already has. If quotients are equal, the party with fewer seats gets the seat. If the seats are
/// equal too, `ties` decides by the order of names. The quotient is a double as in Karmada, because an exact quotient
/// could give another result for huge votes. If no party has votes, no party gets a seat.
///
/// The running time depends on the number of parties, and does not grow with the number of seats. The function gives
/// all seats with a quotient above a threshold in one step. Seats with a lower quotient follow later, so ties cannot
/// change the result of this step.
///
/// ```
/// use berth_engine::{Party, TieOrder, divide};
///
/// let parties = [(0, 3), (1, 1), (2, 1)].map(|(ordinal, votes)| Party { ordinal, votes });
/// assert_eq!(divide(5, &parties, TieOrder::Ascending), [3, 1, 1]);
/// // If the votes are equal, the order of the names decides.
/// assert_eq!(divide(1, &parties[1..], TieOrder::Ascending), [1, 0]);
/// assert_eq!(divide(1, &parties[1..], TieOrder::Descending), [0, 1]);
/// ```
pub fn divide(seats: i64, parties: &[Party], ties: TieOrder) -> Vec<i64> {
    let mut given = vec![0; parties.len()];
    let votes: i128 = parties
        .iter()
        .map(|party| i128::from(party.votes.max(0)))
        .sum();
    if seats <= 0 || votes == 0 {
        return given;
    }
    let mut left = seats - give_seats_above_threshold(seats, votes, parties, &mut given);
    if left <= 0 {
        return given;
    }
    if let Ok(few) = usize::try_from(left)
        && few < parties.len() / 4
    {
        give_last_seats(few, parties, ties, &mut given);
        return given;
    }
    let mut heap: BinaryHeap<Claim> = parties
        .iter()
        .zip(&given)
        .enumerate()
        .map(|(index, (party, &seats))| Claim::new(index, party, seats, ties))
        .collect();
    while left > 0 {
        let Some(mut first) = heap.peek_mut() else {
            break;
        };
        let index = first.index;
        given[index] += 1;
        left -= 1;
        *first = Claim::new(index, &parties[index], given[index], ties);
    }
    given
}

/// A seat that a party got in addition to the floor of its exact share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ExtraSeat {
    /// The index of the party.
    pub(super) index: usize,
    /// The quotient with which the party got the seat.
    pub(super) claim: f64,
    /// The rule by which this claim precedes the next claim.
    pub(super) decided_by: RemainderRule,
}

/// Returns the seats that parties got in addition to `floors`, in the order in which they were given. `given` is the
/// result of [`divide`].
pub(super) fn extra_seats(
    parties: &[Party],
    floors: &[i64],
    given: &[i64],
    ties: TieOrder,
) -> Vec<ExtraSeat> {
    let claim = |index: usize, seats: i64| Claim::new(index, &parties[index], seats, ties);
    let mut claims: Vec<Claim> = (0..parties.len())
        .flat_map(|index| (floors[index]..given[index]).map(move |seats| claim(index, seats)))
        .collect();
    claims.sort_unstable_by(|a, b| b.cmp(a));
    let unserved = (0..parties.len())
        .map(|index| claim(index, given[index]))
        .max();
    let next = claims.iter().skip(1).copied().map(Some).chain([unserved]);
    claims
        .iter()
        .zip(next)
        .map(|(claim, next)| ExtraSeat {
            index: claim.index,
            claim: claim.quotient,
            decided_by: match next {
                Some(next) if next.quotient.total_cmp(&claim.quotient) == Ordering::Equal => {
                    if next.seats == claim.seats {
                        RemainderRule::Name
                    } else {
                        RemainderRule::FewerReplicas
                    }
                }
                _ => RemainderRule::Claim,
            },
        })
        .collect()
}

/// A party's claim to the next seat. The greatest claim wins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claim {
    quotient: f64,
    seats: i64,
    rank: usize,
    /// The index of the party.
    pub(super) index: usize,
}

impl Claim {
    pub(super) fn new(index: usize, party: &Party, seats: i64, ties: TieOrder) -> Self {
        Self {
            quotient: quotient(party.votes, seats),
            seats,
            rank: match ties {
                TieOrder::Ascending => usize::MAX - party.ordinal,
                TieOrder::Descending => party.ordinal,
            },
            index,
        }
    }
}

impl Eq for Claim {}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        self.quotient
            .total_cmp(&other.quotient)
            .then_with(|| other.seats.cmp(&self.seats))
            .then_with(|| self.rank.cmp(&other.rank))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the quotient is a double by definition"
)]
fn quotient(votes: i64, seats: i64) -> f64 {
    votes.max(0) as f64 / (2 * seats + 1) as f64
}

/// Gives the last `left` seats. If there are fewer seats than parties, only the parties with the `left` greatest claims
/// can get a seat, so the function drops all other claims.
fn give_last_seats(left: usize, parties: &[Party], ties: TieOrder, given: &mut [i64]) {
    let mut claims: Vec<Claim> = parties
        .iter()
        .zip(&*given)
        .enumerate()
        .map(|(index, (party, &seats))| Claim::new(index, party, seats, ties))
        .collect();
    if left < claims.len() {
        claims.select_nth_unstable_by(left - 1, |a, b| b.cmp(a));
        claims.truncate(left);
    }
    let mut heap = BinaryHeap::from(claims);
    for _ in 0..left {
        let Some(mut first) = heap.peek_mut() else {
            break;
        };
        let index = first.index;
        given[index] += 1;
        *first = Claim::new(index, &parties[index], given[index], ties);
    }
}

/// Chooses a threshold such that at most `seats` seats have a quotient above it. Gives these seats, and returns their
/// number. Gives no seat if there are fewer seats than parties, or if a few attempts find no such threshold.
#[expect(
    clippy::cast_precision_loss,
    reason = "the threshold is a guess; the counts are checked"
)]
fn give_seats_above_threshold(
    seats: i64,
    votes: i128,
    parties: &[Party],
    given: &mut [i64],
) -> i64 {
    if seats < i64::try_from(parties.len()).unwrap_or(i64::MAX) {
        return 0;
    }
    // A party gets about votes / (2 * threshold) seats, plus or minus half a seat.
    let mut threshold = votes as f64 / (2.0 * seats as f64);
    for _ in 0..8 {
        let mut sum: i64 = 0;
        for (party, given) in parties.iter().zip(given.iter_mut()) {
            *given = seats_above(party.votes, threshold).min(seats);
            sum = sum.saturating_add(*given);
        }
        if sum <= seats {
            return sum;
        }
        threshold *= 1.0 + 1.5 * (sum - seats) as f64 / seats as f64 + 1e-9;
    }
    given.fill(0);
    0
}

/// Returns the number of a party's quotients above the threshold.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a first guess, corrected by the quotients themselves"
)]
pub(super) fn seats_above(votes: i64, threshold: f64) -> i64 {
    let guess = votes.max(0) as f64 / (2.0 * threshold) + 0.5;
    let mut count = (guess as i64).clamp(0, i64::from(i32::MAX));
    while count > 0 && quotient(votes, count - 1) <= threshold {
        count -= 1;
    }
    while count < i64::from(i32::MAX) && quotient(votes, count) > threshold {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parties(votes: &[i64]) -> Vec<Party> {
        votes
            .iter()
            .enumerate()
            .map(|(ordinal, &votes)| Party { ordinal, votes })
            .collect()
    }

    #[test]
    fn seats_are_proportional_to_votes() {
        for (seats, votes, ties, expected) in [
            (12, &[3, 2, 1][..], TieOrder::Ascending, &[6, 4, 2][..]),
            (12, &[6, 8, 10], TieOrder::Ascending, &[3, 4, 5]),
            (12, &[8, 8, 10], TieOrder::Ascending, &[4, 4, 4]),
            (12, &[18, 12, 6], TieOrder::Ascending, &[6, 4, 2]),
            (12, &[20, 12, 6], TieOrder::Ascending, &[6, 4, 2]),
            (5, &[1, 1, 1], TieOrder::Ascending, &[2, 2, 1]),
            (5, &[1, 1, 1], TieOrder::Descending, &[1, 2, 2]),
            (1, &[1, 1, 1], TieOrder::Descending, &[0, 0, 1]),
            (3, &[0, 1], TieOrder::Ascending, &[0, 3]),
            (3, &[0, 0], TieOrder::Ascending, &[0, 0]),
            (0, &[1, 2], TieOrder::Ascending, &[0, 0]),
            (-4, &[1, 2], TieOrder::Ascending, &[0, 0]),
            (3, &[], TieOrder::Ascending, &[]),
            (2, &[i64::MAX, i64::MAX], TieOrder::Ascending, &[1, 1]),
            (10, &[i64::MAX, i64::MAX], TieOrder::Ascending, &[5, 5]),
            (
                9,
                &[i64::MAX, i64::MAX - 1, 1],
                TieOrder::Ascending,
                &[5, 4, 0],
            ),
            (6, &[i64::MAX, i64::MAX / 2], TieOrder::Ascending, &[4, 2]),
        ] {
            assert_eq!(
                divide(seats, &parties(votes), ties),
                expected,
                "{seats} over {votes:?}"
            );
        }
    }

    /// Divides seat by seat, as the definition of the method prescribes.
    fn seat_by_seat(seats: i64, parties: &[Party], ties: TieOrder) -> Vec<i64> {
        let mut given = vec![0; parties.len()];
        if parties.iter().all(|party| party.votes <= 0) {
            return given;
        }
        for _ in 0..seats {
            let first = (0..parties.len())
                .max_by(|&a, &b| {
                    let (left, right) = (&parties[a], &parties[b]);
                    let by_name = right.ordinal.cmp(&left.ordinal);
                    quotient(left.votes, given[a])
                        .total_cmp(&quotient(right.votes, given[b]))
                        .then(given[b].cmp(&given[a]))
                        .then(if ties == TieOrder::Ascending {
                            by_name
                        } else {
                            by_name.reverse()
                        })
                })
                .unwrap();
            given[first] += 1;
        }
        given
    }

    proptest! {
        #[test]
        fn bulk_division_equals_seat_by_seat_division(
            votes in prop::collection::vec(prop_oneof![0_i64..12, 0_i64..1000, any::<i64>().prop_map(i64::saturating_abs)], 0..40),
            seats in 0_i64..400,
            descending in any::<bool>(),
        ) {
            let parties = parties(&votes);
            let ties = if descending { TieOrder::Descending } else { TieOrder::Ascending };
            let given = divide(seats, &parties, ties);
            prop_assert_eq!(&given, &seat_by_seat(seats, &parties, ties));
        }

        #[test]
        fn all_seats_are_given(
            votes in prop::collection::vec(1_i64..i64::MAX, 1..60), seats in 0_i64..i64::from(i32::MAX),
        ) {
            let given = divide(seats, &parties(&votes), TieOrder::Ascending);
            prop_assert_eq!(given.iter().sum::<i64>(), seats);
        }
    }
}
