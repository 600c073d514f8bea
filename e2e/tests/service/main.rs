//! End-to-end tests of the scheduler service. They cover the scheduler's writes, its flags and leader election, and
//! failures of the API server, of connections and of the scheduler process.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::default_trait_access,
    reason = "test code"
)]

mod api_faults;
mod assertions;
#[cfg(target_os = "linux")]
mod clock_jumps;
mod cluster_queues;
mod component_names;
mod credentials;
mod debug_decisions;
mod decision_log;
mod fault_fixture;
mod feature_gates;
mod flags;
mod interruption;
mod leader_election;
mod log_lines;
mod malformed_objects;
mod metrics_access;
mod objects;
mod process;
mod quotas;
mod recorded_writes;
mod repeated_failures;
mod requeue_events;
mod shadow;
mod takeover;
mod webhook;
