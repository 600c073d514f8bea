//! Scheduling rules around the engine, as pure functions: which bindings are scheduled and when, and what is written.

pub mod affinity_group_in_use;
pub mod cluster_change;
pub mod condition;
pub mod plan;
pub mod responsibility;
pub mod schedule_trigger;
