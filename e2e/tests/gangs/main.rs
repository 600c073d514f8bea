//! End-to-end tests of gang scheduling, of the order of the scheduling queue, and of preemption. The scheduler uses the
//! configurations in `examples/gangs` and `examples/preemption`.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod coscheduling;
mod preemption;
mod queue_order;
mod rights;
mod scene;
