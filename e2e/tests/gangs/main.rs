//! Gangs, their order, and preemption on a running control plane, with the example configurations.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod coscheduling;
mod preemption;
mod queue_order;
mod rights;
mod scene;
