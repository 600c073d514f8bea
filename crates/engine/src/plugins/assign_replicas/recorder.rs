//! A recorder of the divisions in an assignment. The explanation of the assignment is built from its records.

use std::cell::{Cell, RefCell};

use super::divide::{Party, extra_seats};
use crate::{
    DividedShare, DivisionOperation, DivisionStep, LimitReached, Remainder, Share, Snapshot,
    TieBreak, TieOrder, WeightBasis,
};

/// The recorded divisions of one assignment.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    tier: Cell<Option<u32>>,
    divisions: RefCell<Vec<Division>>,
}

#[derive(Debug)]
struct Division {
    operation: DivisionOperation,
    weights: WeightBasis,
    tier: Option<u32>,
    replicas: i64,
    parties: Vec<Party>,
    given: Vec<i64>,
    /// The limits that the shares reach. Empty, or with an entry for each party.
    limits: Vec<Option<LimitReached>>,
    ties: TieOrder,
}

impl Recorder {
    /// Sets the tier of the following divisions.
    pub(super) fn begin_tier(&self, tier: u32) {
        self.tier.set(Some(tier));
    }

    /// Records shares that were assigned without a division.
    pub(super) fn undivided(&self, operation: DivisionOperation, replicas: i64, shares: &[Share]) {
        let parties = shares.iter().map(|share| Party {
            ordinal: share.ordinal,
            votes: 0,
        });
        self.divisions.borrow_mut().push(Division {
            operation,
            weights: WeightBasis::None,
            tier: self.tier.get(),
            replicas,
            parties: parties.collect(),
            given: shares.iter().map(|share| share.replicas).collect(),
            limits: Vec::new(),
            ties: TieOrder::Ascending,
        });
    }

    /// Records shares that were assigned within limits, and the limit that each share reaches.
    pub(super) fn limited(
        &self,
        replicas: i64,
        shares: &[Share],
        limits: Vec<Option<LimitReached>>,
    ) {
        self.undivided(DivisionOperation::Limit, replicas, shares);
        if let Some(division) = self.divisions.borrow_mut().last_mut() {
            division.limits = limits;
        }
    }

    /// Records a division.
    pub(super) fn divided(
        &self,
        (operation, weights): (DivisionOperation, WeightBasis),
        replicas: i64,
        parties: &[Party],
        given: &[i64],
        ties: TieOrder,
    ) {
        self.divisions.borrow_mut().push(Division {
            operation,
            weights,
            tier: self.tier.get(),
            replicas,
            parties: parties.to_vec(),
            given: given.to_vec(),
            limits: Vec::new(),
            ties,
        });
    }

    /// Converts the recorded divisions to the steps of an explanation.
    pub(super) fn steps(self, snapshot: &Snapshot) -> Vec<DivisionStep> {
        let divisions = self.divisions.into_inner();
        divisions
            .iter()
            .map(|division| division.step(snapshot))
            .collect()
    }
}

impl Division {
    fn step(&self, snapshot: &Snapshot) -> DivisionStep {
        let name = |ordinal: usize| {
            let name = snapshot.name(ordinal);
            name.map_or_else(String::new, ToString::to_string)
        };
        let votes: i128 = self
            .parties
            .iter()
            .map(|party| i128::from(party.votes.max(0)))
            .sum();
        let floors: Vec<i64> = self
            .parties
            .iter()
            .zip(&self.given)
            .map(|(party, given)| match self.weights {
                WeightBasis::None => *given,
                _ if votes == 0 => 0,
                _ => {
                    let exact = i128::from(party.votes.max(0)) * i128::from(self.replicas);
                    i64::try_from(exact / votes).unwrap_or(i64::MAX)
                }
            })
            .collect();
        let limits = self.limits.iter().copied().chain(std::iter::repeat(None));
        let parties = self.parties.iter().zip(&self.given).zip(&floors);
        let shares = parties
            .zip(limits)
            .map(|(((party, &given), &floor), limit)| DividedShare {
                cluster: name(party.ordinal),
                weight: party.votes,
                exact: match self.weights {
                    WeightBasis::None => fraction(i128::from(given), 1),
                    _ => fraction(
                        i128::from(party.votes.max(0)) * i128::from(self.replicas),
                        votes,
                    ),
                },
                floor,
                remainder: given - floor,
                replicas: given,
                limit,
            });
        let remainders = extra_seats(&self.parties, &floors, &self.given, self.ties);
        DivisionStep {
            operation: self.operation,
            tier: self.tier,
            replicas: self.replicas,
            weights: self.weights,
            ties: match self.ties {
                TieOrder::Ascending => TieBreak::FirstName,
                TieOrder::Descending => TieBreak::LastName,
            },
            shares: shares.collect(),
            remainders: remainders
                .iter()
                .map(|seat| Remainder {
                    cluster: name(self.parties[seat.index].ordinal),
                    claim: seat.claim,
                    decided_by: seat.decided_by,
                })
                .collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits only")]
fn fraction(numerator: i128, denominator: i128) -> f64 {
    if denominator == 0 {
        0.0
    } else {
        numerator as f64 / denominator as f64
    }
}
