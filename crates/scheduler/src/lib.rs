//! The scheduler service around the decision engine of `berth-engine`.
//!
//! ```text
//! watches ──> Scheduler (one task, owns all state) ──> engine ──> Plan ──> writer tasks ──> API server
//!                ^  bindings, queue, capacity book                            │
//!                └───────────────────────── reports ──────────────────────────┘
//! ```
//!
//! One task owns the state and makes one decision at a time. Decisions are pure. Only I/O is concurrent. The crate uses
//! the Kubernetes API and the engine. It must not depend on code that serves a control plane or creates bindings from
//! policies.
//!
//! The following program is a scheduler with an additional plugin:
//!
//! ```
//! use std::sync::Arc;
//!
//! use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
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
//! Authors of plugins use `SchedulerCommand` and the modules [`framework`] and [`template`]. The other
//! public modules are for programs that run a scheduler, explain its decisions or make decisions without a scheduler.
//!
//! The table lists the modules from the highest to the lowest. A module never imports a module of a higher row.
//!
//! | module | contents |
//! |---|---|
//! | `command` | [`SchedulerCommand`], the program |
//! | `setup` | [`run`]: clients, watches, leader election, HTTP endpoints |
//! | `shadow` | comparison with the decisions of another scheduler, without writes |
//! | `scheduler` | the task that owns the state and decides |
//! | [`replay`] | repetition of the decisions in a decision log |
//! | [`offline`] | engines, gangs and preemption of a configuration, without a running scheduler |
//! | `clusters` | the known clusters, in the forms that decisions and rules need |
//! | `capacity_book` | capacity and placements that clusters do not report yet |
//! | `quota_book` | usage of FederatedResourceQuotas and ClusterQueues, with the decisions that are not written yet |
//! | `profiles` | plugins and engine of each profile, and the watch of the ConfigMap |
//! | `expression`, `gang`, `queue_sort`, `default_preemption` | in-tree plugins that are not part of the engine |
//! | `http_endpoints` | HTTP endpoints for probes, metrics, configuration, recorded decisions and shadow differences |
//! | `shadow_differences` | decisions that differ in shadow mode, for `/debug/shadow` |
//! | [`debug_api`] | documents of the debug endpoints |
//! | [`config`] | flags, configuration file and ConfigMap |
//! | `recent_decisions` | the last decision about each binding with its inputs, in memory |
//! | [`decision_log`] | log of decisions with their inputs, in files |
//! | `recorded_decision` | a decision with its inputs, in memory |
//! | `extender`, [`estimator`] | clients of HTTP extenders and of the members' accurate estimators |
//! | [`framework`], [`template`] | API for plugins |
//! | `writer`, `watch` | requests to the API server |
//! | `metrics` | Prometheus metrics |
//! | [`rules`], `queue` | choice of the bindings to schedule, their order, and the content of writes |
//! | `raw_binding`, `lazy_object` | bindings of both kinds, decoded on demand |

// The derives of metric labels expand to paths into this name.
extern crate berth_metrics as prometheus_client;

mod capacity_book;
mod clusters;
mod command;
pub mod config;
pub mod debug_api;
pub mod decision_log;
mod default_preemption;
pub mod estimator;
mod expression;
mod extender;
pub mod framework;
mod gang;
mod http_endpoints;
mod lazy_object;
mod metrics;
pub mod offline;
mod profiles;
mod queue;
mod queue_sort;
mod quota_book;
mod raw_binding;
mod recent_decisions;
mod recorded_decision;
pub mod replay;
pub mod rules;
mod scheduler;
mod setup;
mod shadow;
mod shadow_differences;
pub mod template;
mod watch;
mod writer;

pub use berth_component_base::kube_client::Timeouts;
pub use capacity_book::AffinityGroups;
pub use command::{CommandError, SchedulerCommand};
pub use config::{Options, OptionsError};
pub use expression::Expression;
#[cfg(fuzzing)]
pub use extender::fuzzing::decode_response as decode_extender_response;
pub use queue::{NamespaceWeights, QueueOrder, Turns};
pub use quota_book::{LimitExceeded, QueueExceeded, QuotaBook};
pub use setup::{ServiceError, run, run_with_client};
