//! The plugin AssignReplicas, which decides the number of replicas in each selected cluster.

mod distribution;
mod divide;
mod dynamic;
mod go_sort;
mod limited;
mod min_groups;
mod overflow;
mod recorder;
mod static_weights;
mod within;

use crate::{
    Assign, AssignContext, BindingContext, Bits, Candidate, CompiledLimits, DivisionOperation,
    DivisionStep, Mode, Order, PluginError, Request, Selection, Share, Strategy, TieOrder,
    WeightBasis,
};
use berth_api::feature_gates::EngineGates;
use berth_api::well_known::REPLICA_LIMITS;
use recorder::Recorder;

pub use divide::{Party, divide};

/// An assign plugin that follows `replicaScheduling` of the placement.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssignReplicas {
    gates: EngineGates,
}

impl AssignReplicas {
    /// The plugin's name.
    pub const NAME: &'static str = "AssignReplicas";

    /// Creates the plugin. Its behaviour depends on the feature gate MinGroupsInDivision, and on the gates that decide
    /// which spread constraints apply.
    pub fn new(gates: EngineGates) -> Self {
        Self { gates }
    }
}

impl Assign for AssignReplicas {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let by_capacity = matches!(
            context.request().placement().strategy(),
            Strategy::DynamicWeights | Strategy::Aggregated
        );
        let by_limits = || {
            let limits = context.request().limits();
            limits.is_some_and(CompiledLimits::count_capacity)
        };
        context.request().divides_replicas()
            && (by_capacity || context.attempt().is_tiered() || by_limits())
    }

    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError> {
        let input = AssignInput::new(context, selected.order, self.gates, None);
        let tiered = context.binding().attempt().is_tiered();
        Ok(assign(&input, &mut selected.clusters, tiered)?)
    }

    fn explain(&self, context: &AssignContext<'_>, selected: &Selection) -> Vec<DivisionStep> {
        let recorder = Recorder::default();
        let input = AssignInput::new(context, selected.order, self.gates, Some(&recorder));
        let tiered = context.binding().attempt().is_tiered();
        // This error needs no explanation: the assignment afterwards returns the same error.
        let _ = assign(&input, &mut selected.clusters.clone(), tiered);
        recorder.steps(context.binding().snapshot())
    }
}

/// The input of an assignment.
#[derive(Clone, Copy, Debug)]
struct AssignInput<'a> {
    context: &'a AssignContext<'a>,
    request: &'a Request,
    /// The static weight rules of the placement: the clusters that a rule matches, and the weight of the rule.
    static_weights: &'a [(Bits, i64)],
    /// The current replicas of the workload in each cluster of `spec.clusters` that still exists, in the same order.
    current: &'a [Share],
    order: Order,
    gates: EngineGates,
    /// The recorder of the divisions, if the decision is explained.
    recorder: Option<&'a Recorder>,
}

impl<'a> AssignInput<'a> {
    fn new(
        context: &'a AssignContext<'a>,
        order: Order,
        gates: EngineGates,
        recorder: Option<&'a Recorder>,
    ) -> Self {
        Self {
            context,
            request: context.binding().request(),
            static_weights: context.static_weights(),
            current: context.binding().current(),
            order,
            gates,
            recorder,
        }
    }

    fn ties(&self) -> TieOrder {
        self.request.ties()
    }

    fn mode(&self) -> Mode {
        self.request.mode()
    }

    /// Returns the current replicas of a cluster.
    fn current_of(&self, cluster: usize) -> i64 {
        let mut current = self.current.iter();
        let current = current.find(|share| share.ordinal == cluster);
        current.map_or(0, |share| share.replicas)
    }
}

/// The reason why the replicas cannot be assigned to the selected clusters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum AssignError {
    #[error("no clusters available to schedule")]
    NothingSelected,
    #[error(
        "unsupported replica scheduling strategy, replicaSchedulingType: {scheduling}, replicaDivisionPreference: {division}, please try another scheduling strategy"
    )]
    Unsupported {
        scheduling: String,
        division: String,
    },
    #[error("{operation}: Clusters available replicas {available} are not enough to schedule.")]
    InsufficientReplicas {
        operation: Operation,
        available: i64,
    },
    #[error("Clusters available replicas are not enough to schedule.")]
    TiersExhausted,
    #[error(
        "spreadConstraint.MinGroups is {min}, but the replicas fit into only {covered} of the selected {groups}"
    )]
    TooFewGroups {
        groups: &'static str,
        min: usize,
        covered: usize,
    },
    #[error(
        "{REPLICA_LIMITS}: the minimums of the selected clusters need {needed} replicas, but the workload has {replicas}"
    )]
    MinimumsExceedReplicas { needed: i64, replicas: i64 },
    #[error(
        "{REPLICA_LIMITS}: {cluster} must have at least {min} replicas, but has room for {room}"
    )]
    NoRoomForMinimum {
        cluster: String,
        min: i64,
        room: i64,
    },
    #[error("{REPLICA_LIMITS}: {cluster} must have at least {min} replicas and at most {max}")]
    Contradiction { cluster: String, min: i64, max: i64 },
    #[error(
        "{REPLICA_LIMITS}: only {possible} of {replicas} replicas can be placed: {}",
        list(obstacles)
    )]
    MaximumsBelowReplicas {
        possible: i64,
        replicas: i64,
        obstacles: Vec<Obstacle>,
    },
}

/// A cluster that takes no more replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Obstacle {
    cluster: String,
    /// The replicas that the cluster takes.
    replicas: i64,
    /// True if a maximum is the reason, and not the capacity.
    is_limit: bool,
}

/// Maximum number of clusters that a message names.
const NAMED_OBSTACLES: usize = 5;

/// Lists obstacles for a message.
fn list(obstacles: &[Obstacle]) -> String {
    let named = obstacles.iter().take(NAMED_OBSTACLES);
    let mut parts: Vec<String> = named
        .map(|obstacle| {
            let Obstacle {
                cluster, replicas, ..
            } = obstacle;
            if obstacle.is_limit {
                format!("at most {replicas} in {cluster}")
            } else {
                format!("room for {replicas} in {cluster}")
            }
        })
        .collect();
    if obstacles.len() > NAMED_OBSTACLES {
        parts.push(format!("and {} more", obstacles.len() - NAMED_OBSTACLES));
    }
    parts.join(", ")
}

/// The operation of a strategy that divides replicas by capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Operation {
    #[error("failed to do fresh scale")]
    FreshScale,
    #[error("failed to scale up")]
    ScaleUp,
}

impl From<AssignError> for PluginError {
    fn from(error: AssignError) -> Self {
        let text = error.to_string();
        match error {
            AssignError::InsufficientReplicas { .. }
            | AssignError::TiersExhausted
            | AssignError::TooFewGroups { .. }
            | AssignError::MinimumsExceedReplicas { .. }
            | AssignError::NoRoomForMinimum { .. }
            | AssignError::Contradiction { .. }
            | AssignError::MaximumsBelowReplicas { .. } => Self::unschedulable(text),
            AssignError::NothingSelected | AssignError::Unsupported { .. } => Self::failed(text),
        }
    }
}

/// Assigns the replicas to the selected clusters. Omits clusters that get no replicas. A resource without replicas has
/// a share of 0 in each selected cluster.
///
/// If `tiered` is true, replicas fill the tiers of clusters in order.
fn assign(
    context: &AssignInput<'_>,
    selected: &mut [Candidate],
    tiered: bool,
) -> Result<Vec<Share>, AssignError> {
    if selected.is_empty() {
        return Err(AssignError::NothingSelected);
    }
    if !context.request.divides_replicas() {
        let copies = selected.iter().map(|candidate| Share {
            ordinal: candidate.ordinal,
            replicas: 0,
        });
        return Ok(copies.collect());
    }
    if context.request.limits().is_some() {
        limited::check_minimums(context, selected)?;
    }
    let mut shares = if tiered {
        overflow::assign_by_tier(context, selected)?
    } else {
        by_strategy(context, selected, context.request.replicas())?
    };
    if context.gates.min_groups_in_division {
        min_groups::cover(context, selected, &mut shares)?;
    }
    Ok(shares)
}

/// Assigns `replicas` by the strategy of the placement, and ignores tiers.
fn by_strategy(
    context: &AssignInput<'_>,
    selected: &mut [Candidate],
    replicas: i64,
) -> Result<Vec<Share>, AssignError> {
    if let Some(limits) = context.request.limits() {
        return limited::assign(context, limits, selected, replicas);
    }
    let mut shares = match context.request.placement().strategy() {
        Strategy::Duplicated => {
            let copies: Vec<Share> = selected
                .iter()
                .map(|candidate| Share {
                    ordinal: candidate.ordinal,
                    replicas,
                })
                .collect();
            if let Some(recorder) = context.recorder {
                recorder.undivided(DivisionOperation::Copy, replicas, &copies);
            }
            copies
        }
        Strategy::StaticWeights(_) => static_weights::assign(context, selected, replicas)?,
        Strategy::DynamicWeights => {
            dynamic::assign(context, selected, replicas, dynamic::Spread::All)?
        }
        Strategy::Aggregated => {
            dynamic::assign(context, selected, replicas, dynamic::Spread::Fewest)?
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

/// Divides replicas among parties in proportion to their votes. Returns one share for each party, sorted by cluster
/// name.
fn divide_by_name(
    context: &AssignInput<'_>,
    replicas: i64,
    mut parties: Vec<Party>,
    (operation, weights): (DivisionOperation, WeightBasis),
) -> Vec<Share> {
    if !parties.is_sorted_by_key(|party| party.ordinal) {
        parties.sort_unstable_by_key(|party| party.ordinal);
    }
    let given = divide(replicas, &parties, context.ties());
    if let Some(recorder) = context.recorder {
        recorder.divided(
            (operation, weights),
            replicas,
            &parties,
            &given,
            context.ties(),
        );
    }
    given
        .into_iter()
        .zip(parties)
        .map(|(replicas, party)| Share {
            ordinal: party.ordinal,
            replicas,
        })
        .collect()
}
