//! End-to-end scenarios of users of the Karmada API.
//!
//! Each test starts a control plane with the three members `member1`, `member2` and `member3`. The test acts as a user,
//! and waits for results that a user can see.

#![expect(clippy::unwrap_used, reason = "test code")]

mod affinities;
mod assertions;
mod cluster_scoped;
mod deferred_policies;
mod deletion;
mod kubectl;
mod manifests;
mod member_changes;
mod policy_edits;
mod policy_priority;
mod rebalancing;
mod replica_limits;
mod scaling;
mod scheduler_name;
mod scheduler_restart;
mod spread_constraints;
mod suspension;
mod unschedulable;
mod validation;
