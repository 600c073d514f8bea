//! Tests of `berth up`, of its simulated members, and of the commands that use the running control plane.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod application_failover;
mod autoscaling;
mod browser;
mod clusters;
mod command_output;
mod components;
mod dashboard;
mod dashboard_differences;
mod dashboard_views;
mod diff;
mod disabled_components;
mod documented;
mod estimators;
mod instance;
mod members;
mod persistence;
mod pod_events;
mod program;
mod rebalancing;
mod refused_pods;
mod situations;
mod start;
mod tracing;
mod unjoin;
mod watch;
mod web_application;
mod what_if;
mod workload_status;
mod workloads;
