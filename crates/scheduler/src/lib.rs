//! The scheduler service: everything around the decision engine.
//!
//! ```text
//! watches ──> Owner (one task, holds all state) ──> engine ──> Plan ──> writer tasks ──> API server
//!                ^  cache, queue, fleet                                     │
//!                └───────────────────────── reports ───────────────────────┘
//! ```
//!
//! One task owns the cache, the queue and the fleet; decisions are serial and pure, and only I/O is
//! concurrent. The crate knows the Kubernetes API and the engine; it does not know how a control plane is
//! made, nor how policies become bindings.

mod any_certificate;
pub mod assume;
pub mod binding;
pub mod command;
pub mod condition;
pub mod config;
pub mod connect;
pub mod estimator;
pub mod expression;
pub mod extender;
pub mod filter;
pub mod flags;
pub mod fleet_watch;
pub mod framework;
pub mod gang;
pub mod gates;
pub mod go_duration;
pub mod group_in_use;
pub mod guard;
pub mod health;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod need;
pub mod options;
mod owner;
pub mod peers;
pub mod plan;
pub mod preemption;
pub mod queue;
pub mod rate_limit;
pub mod reachability;
mod rotation;
pub mod runtime;
pub mod service;
pub mod signals;
pub mod template;
pub mod wall_clock;
pub mod watch;
pub mod writer;

pub use command::{CommandError, SchedulerCommand};
pub use options::{Options, OptionsError, Patience};
pub use service::{ServiceError, run, run_with_client};
