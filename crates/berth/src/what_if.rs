//! Effects of changes on the placements of a fleet, by the rules of the scheduler; nothing is written.
//!
//! ```text
//! state before, state after ──> evictions ──> triggers ──> decide ──> moves
//!                               NoExecute     bindings     engine
//!                                                            ^
//!                                       settle: capacity, ───┘
//!                                       preemption, gangs
//! ```
//!
//! `berth simulate` and the dashboard share [`moves_over_time`], so both have the same results.

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
