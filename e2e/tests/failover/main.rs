//! Failover on a running control plane: evictions, new placements and removal of old copies. The tests write the health
//! that members would report.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod application;
mod move_budget;
mod scene;
mod taint_policies;
mod taints;
