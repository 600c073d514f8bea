//! `berth up` as a person meets it: what it leaves behind, what it says when it cannot start, its members, and the
//! commands that find it again.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod clusters;
mod command_output;
mod disabled_components;
mod documented;
mod instance;
mod members;
mod persistence;
mod pod_events;
mod program;
mod start;
mod unjoin;
mod watch;
mod web_application;
mod workloads;
