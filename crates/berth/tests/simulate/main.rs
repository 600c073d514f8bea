//! Tests of the command `berth simulate`.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod configuration;
mod customizations;
mod docs;
mod estimators;
mod fleet_changes;
mod limits;
mod live_diff;
mod manifests;
mod output;
mod policies;
mod policy_claims;
mod program;
mod quotas;
