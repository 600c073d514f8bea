//! Scheduling rules outside the engine, as pure functions. They determine which bindings are scheduled, when they are
//! scheduled, and which fields the scheduler writes.

pub mod affinity_group_in_use;
pub mod cluster_change;
pub mod condition;
pub mod plan;
pub mod responsibility;
pub mod schedule_trigger;
