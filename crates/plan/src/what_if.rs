//! Prediction of placements: which bindings would move if clusters, policies or templates changed. The prediction works
//! on copies of the objects, with the rules and the engine of the scheduler.
//!
//! ```text
//! control_plane_state ──> evictions ──> first_round ──> further_rounds ──> moves
//!  before and after        NoExecute     triggers        capacity,
//!                                        decider         preemption, gangs
//! ```
//!
//! [`predict_moves`] runs all steps. `berth simulate --against` and the dashboard both call this function, so their
//! results are the same.

mod control_plane_state;
mod decider;
mod decision;
mod estimators;
mod evictions;
mod first_round;
mod fleet_changes;
mod further_rounds;
mod moves;
mod prediction;
mod rejection_summary;
mod triggers;

pub(crate) use control_plane_state::{Bindings, Clusters, ControlPlaneState, decode_binding};
pub(crate) use decider::Decider;
pub(crate) use decision::{Decision, Failure, Share};
pub(crate) use estimators::Estimators;
pub(crate) use evictions::by_new_taints;
pub(crate) use first_round::FirstRoundResults;
pub(crate) use fleet_changes::{FleetChange, TAINT_NOTE, scale};
pub(crate) use further_rounds::run_further_rounds;
pub(crate) use moves::{Move, Moves};
pub(crate) use prediction::predict_moves;
pub(crate) use triggers::schedule_trigger;
