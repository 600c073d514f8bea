//! Effects of changes on the placements of a fleet, by the rules of the scheduler; nothing is written.
//!
//! ```text
//! state before, state after ──> triggers ──> decide ──> moves
//!                               bindings     engine
//! ```
//!
//! `berth simulate` and the dashboard compare states with [`moves_between`], so both have the same results.

mod comparison;
mod decide;
mod estimators;
mod fleet_changes;
mod moves;
mod rejection_summary;
mod state;
mod triggers;

pub(crate) use comparison::{Comparison, moves_between};
pub(crate) use decide::{Decider, Decision, Failure, Share, decode_binding};
pub(crate) use estimators::Estimators;
pub(crate) use fleet_changes::{FleetChange, TAINT_NOTE};
pub(crate) use moves::{Move, Moves};
pub(crate) use state::{Bindings, Clusters, State};
pub(crate) use triggers::schedule_trigger;
