//! Scheduling rules outside the engine, as pure functions. They determine which bindings are scheduled, when they are
//! scheduled, and which fields the scheduler writes.

pub(crate) mod affinity_term_in_use;
pub mod cluster_change;
pub mod condition;
pub(crate) mod plan;
pub mod responsibility;
pub mod schedule_trigger;
