//! End-to-end tests of HTTP extenders of the scheduler: the requests that they receive, the effect of their responses
//! on decisions, and the effect of slow or broken extenders.

#![expect(clippy::unwrap_used, reason = "test code")]

mod config_reload;
mod example_extender;
mod failing_extenders;
mod fixture;
mod kube_scheduler_adapter;
mod preemption;
mod scheduling;
