//! Prediction of placements: which bindings would move if clusters, policies or templates changed. The prediction works
//! on copies of the objects, with the rules and the engine of the scheduler.
//!
//! ```text
//! state before, state after ──> evictions ──> triggers ──> decide ──> moves
//!                               NoExecute     bindings     engine
//!                                                            ^
//!                                       settle: capacity, ───┘
//!                                       preemption, gangs
//! ```
//!
//! `berth simulate` and the dashboard both call [`moves_over_time`], so their results are the same.

mod comparison;
mod decide;
mod estimators;
mod evictions;
mod fleet_changes;
mod moves;
mod over_time;
mod rejection_summary;
mod settle;
mod state;
mod triggers;

pub(crate) use decide::{Decider, Decision, Failure, Share, decode_binding};
pub(crate) use estimators::Estimators;
pub(crate) use evictions::by_new_taints;
pub(crate) use fleet_changes::{FleetChange, TAINT_NOTE, scale};
pub(crate) use moves::{Move, Moves};
pub(crate) use over_time::moves_over_time;
pub(crate) use settle::{FirstRound, settle};
pub(crate) use state::{Bindings, Clusters, State};
pub(crate) use triggers::schedule_trigger;
