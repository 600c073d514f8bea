//! End-to-end tests of failover with a scheduler and the failover controllers: evictions from clusters, new placements,
//! and the removal of eviction tasks. No members run, so the tests write the status that members would report.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod application;
mod brake;
mod cancellation;
mod move_budget;
mod rebalance;
mod scene;
mod taint_policies;
mod taints;
