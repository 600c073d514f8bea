//! The last stage: how many replicas each selected cluster gets.

mod divide;
mod dynamic;
mod go_sort;
mod overflow;
mod static_weights;

use crate::bits::Bits;
use crate::candidate::{Candidate, Share};
use crate::error::ScheduleError;
use crate::request::placement::Strategy;
use crate::request::{Mode, Request, TieOrder};

pub use divide::{Party, divide};

/// What assignment needs to know besides the selected clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssignContext<'a> {
    pub(crate) request: &'a Request,
    /// The clusters that each rule of static weights matches, with the weight.
    pub(crate) static_weights: &'a [(Bits, i64)],
    /// The clusters of `spec.clusters` that exist, in its order.
    pub(crate) prior: &'a [Share],
    pub(crate) order: Order,
}

/// The order that selected clusters come in. Of clusters that can take the same, the first is filled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By name, because nothing was selected among the candidates: the order of preference is meant, and
    /// found where it is needed.
    ByName,
    /// As selection left them.
    AsSelected,
}

impl AssignContext<'_> {
    fn ties(&self) -> TieOrder {
        self.request.ties
    }

    fn mode(&self) -> Mode {
        self.request.mode
    }
}

/// Why selected clusters do not get the replicas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AssignError {
    #[error("no clusters available to schedule")]
    NothingSelected,
    #[error(
        "unsupported replica scheduling strategy, replicaSchedulingType: {scheduling}, replicaDivisionPreference: {division}, please try another scheduling strategy"
    )]
    Unsupported {
        scheduling: String,
        division: String,
    },
    #[error("{attempt}: Clusters available replicas {available} are not enough to schedule.")]
    TooFew { attempt: Attempt, available: i64 },
    #[error("Clusters available replicas are not enough to schedule.")]
    TiersExhausted,
}

/// What a dynamic strategy was about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Attempt {
    #[error("failed to do fresh scale")]
    Fresh,
    #[error("failed to scale up")]
    Up,
}

impl From<AssignError> for ScheduleError {
    fn from(error: AssignError) -> Self {
        let text = format!("failed to assign replicas: {error}");
        match error {
            AssignError::TooFew { .. } | AssignError::TiersExhausted => Self::Unschedulable(text),
            AssignError::NothingSelected | AssignError::Unsupported { .. } => Self::Other(text),
        }
    }
}

/// Deals the replicas to the selected clusters. Clusters that get none are left out.
///
/// `tiered` says that the clusters belong to tiers, which are filled one after the other.
pub(crate) fn assign(
    context: &AssignContext<'_>,
    selected: &mut [Candidate],
    tiered: bool,
) -> Result<Vec<Share>, AssignError> {
    if selected.is_empty() {
        return Err(AssignError::NothingSelected);
    }
    if !context.request.deals_replicas() {
        let copies = selected.iter().map(|candidate| Share {
            ordinal: candidate.ordinal,
            replicas: 0,
        });
        return Ok(copies.collect());
    }
    if tiered {
        return overflow::assign_by_tier(context, selected);
    }
    by_strategy(context, selected, context.request.replicas)
}

/// Deals `replicas` by the strategy, without regard to tiers.
fn by_strategy(
    context: &AssignContext<'_>,
    selected: &mut [Candidate],
    replicas: i64,
) -> Result<Vec<Share>, AssignError> {
    let mut shares = match &context.request.placement.strategy {
        Strategy::Duplicated => selected
            .iter()
            .map(|candidate| Share {
                ordinal: candidate.ordinal,
                replicas,
            })
            .collect(),
        Strategy::StaticWeights(_) => static_weights::assign(context, selected, replicas),
        Strategy::DynamicWeights => {
            dynamic::assign(context, selected, replicas, dynamic::Spread::Wide)?
        }
        Strategy::Aggregated => {
            dynamic::assign(context, selected, replicas, dynamic::Spread::Narrow)?
        }
        Strategy::Unsupported {
            scheduling,
            division,
        } => {
            return Err(AssignError::Unsupported {
                scheduling: scheduling.clone(),
                division: division.clone(),
            });
        }
    };
    shares.retain(|share| share.replicas > 0);
    Ok(shares)
}

/// Divides replicas by votes; one share for each party, by name.
fn divide_by_name(replicas: i64, mut parties: Vec<Party>, ties: TieOrder) -> Vec<Share> {
    if !parties.is_sorted_by_key(|party| party.ordinal) {
        parties.sort_unstable_by_key(|party| party.ordinal);
    }
    divide(replicas, &parties, ties)
        .into_iter()
        .zip(parties)
        .map(|(replicas, party)| Share {
            ordinal: party.ordinal,
            replicas,
        })
        .collect()
}
