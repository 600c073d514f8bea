//! What a user of the Karmada API can rely on, scenario by scenario, on a running control plane.
//!
//! Each test starts a control plane of its own with three members, `member1` to `member3`, does what a
//! user does, and waits for what the user would see.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod affinities;
mod cluster_scoped;
mod clusters;
mod deletion;
mod invalid;
mod kubectl_user;
mod manifests;
mod no_fit;
mod policy_edit;
mod policy_priority;
mod rebalancing;
mod restart;
mod scaling;
mod scheduler_name;
mod spread;
mod suspension;
mod waiting;
mod watching;
