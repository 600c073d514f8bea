//! The scheduler service around the decision engine of `berth-core`.
//!
//! ```text
//! watches ──> Scheduler (one task, owns all state) ──> engine ──> Plan ──> writer tasks ──> API server
//!                ^  bindings, queue, capacity book                            │
//!                └───────────────────────── reports ──────────────────────────┘
//! ```
//!
//! One task owns the state. Decisions are serial and pure; only I/O is concurrent. The crate knows the
//! Kubernetes API and the engine. It does not know how a control plane is served, or how policies become
//! bindings.
//!
//! A scheduler with a plugin of its own:
//!
//! ```
//! use std::sync::Arc;
//!
//! use berth_core::{BindingContext, BindingFilter, ClusterView, Reason};
//! use berth_scheduler::SchedulerCommand;
//! use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};
//!
//! #[derive(Debug)]
//! struct NoMaintenance;
//!
//! impl BindingFilter for NoMaintenance {
//!     fn name(&self) -> &str {
//!         "NoMaintenance"
//!     }
//!
//!     fn check(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
//!         match cluster.label("maintenance") {
//!             Some(_) => Err("cluster(s) were in maintenance".into()),
//!             None => Ok(()),
//!         }
//!     }
//! }
//!
//! fn new(args: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
//!     args.expect_none()?;
//!     Ok(Plugin::new("NoMaintenance").filter(Arc::new(NoMaintenance)))
//! }
//!
//! let command = SchedulerCommand::new().with_plugin("NoMaintenance", new);
//! # // `command.run()` parses the command line and schedules until a signal arrives.
//! # drop(command);
//! ```
//!
//! # Modules
//!
//! From the program down; no module imports one above it.
//!
//! | module | contents |
//! |---|---|
//! | `command` | [`SchedulerCommand`], the program |
//! | `setup` | [`run`]: clients, watches, leader election, HTTP endpoints |
//! | `scheduler` | the task that owns the state and decides |
//! | `shadow` | comparison with the decisions of another scheduler, without writes |
//! | `shadow_differences` | the decisions that differed, for `/debug/shadow` |
//! | [`replay`] | repetition of the decisions in a log |
//! | [`offline`] | profiles of a configuration without a running scheduler |
//! | `clusters` | clusters as last seen |
//! | `capacity_book` | capacity and placements that clusters do not report yet |
//! | `profiles` | frameworks built from a configuration, and their reload |
//! | [`expression`], `gang`, `preemption` | in-tree plugins that are not part of the engine |
//! | `health` | HTTP endpoints for probes, metrics and configuration |
//! | [`config`] | flags, configuration file and ConfigMap |
//! | `decision_record` | the last decisions with their inputs, in memory |
//! | [`decision_log`] | log of decisions with their inputs |
//! | `extender`, [`estimator`] | HTTP extenders and the members' accurate estimators |
//! | [`framework`], [`template`] | plugin API |
//! | `writer`, `watch` | requests to the API server |
//! | [`lease`], [`connect`] | leader election, clients |
//! | `metrics` | Prometheus metrics |
//! | [`rules`], `queue` | which bindings are scheduled, when, and what is written |
//! | [`binding`], `lazy_object` | bindings of both kinds |
//! | [`process`], [`gates`], [`mod@go_duration`] | command line, log output, signals, feature gates |

pub mod binding;
mod capacity_book;
mod clusters;
mod command;
pub mod config;
pub mod connect;
pub mod decision_log;
pub mod decision_record;
pub mod estimator;
pub mod expression;
pub mod extender;
pub mod framework;
mod gang;
pub mod gates;
pub mod go_bool;
pub mod go_duration;
mod health;
mod lazy_object;
pub mod lease;
pub mod metrics;
pub mod metrics_access;
pub mod offline;
mod preemption;
pub mod process;
mod profiles;
mod queue;
pub mod replay;
pub mod rules;
mod scheduler;
mod setup;
mod shadow;
mod shadow_differences;
pub mod template;
mod watch;
mod writer;

pub use capacity_book::AffinityGroups;
pub use command::{CommandError, SchedulerCommand};
pub use config::{Options, OptionsError};
pub use connect::Timeouts;
pub use queue::QueueOrder;
pub use setup::{ServiceError, run, run_with_client};
