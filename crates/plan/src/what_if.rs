//! Prediction of placements: which bindings would move if clusters, policies or templates changed. The prediction works
//! on copies of the objects, with the rules and the engine of the scheduler.
//!
//! ```text
//! control_plane_state ──> evictions ──> first_round ──> further_rounds ──> moves
//!  before and after        taints,       triggers        capacity,
//!                          drains        decider         preemption, gangs
//! ```
//!
//! [`predict_moves`] runs all steps. `berth simulate --against` and the dashboard, which calls [`predict_change()`], both
//! use this function, so their results are the same.

mod decider;
mod decision;
mod drain;
mod estimators;
mod evictions;
mod first_round;
mod fleet_changes;
mod further_rounds;
mod moves;
mod predict_change;
mod predict_drain;
mod prediction;
#[cfg(test)]
mod quota_tests;
mod rejection_summary;
mod triggers;

pub use decision::{Decision, Failure, Share};
pub use drain::{Departure, DepartureOutcome, DepartureRole, DrainPreview};
pub use estimators::Estimators;
pub use fleet_changes::{Change, FleetChange, parse_taint};
pub use moves::{Move, Moves};
pub use predict_change::predict_change;
pub use predict_drain::{PredictDrainError, predict_drain};

pub(crate) use decider::Decider;
pub(crate) use evictions::of_change;
pub(crate) use first_round::FirstRoundResults;
pub(crate) use fleet_changes::{DRAIN_NOTE, TAINT_NOTE};
pub(crate) use further_rounds::run_further_rounds;
pub(crate) use prediction::predict_moves;
pub(crate) use triggers::schedule_trigger;
