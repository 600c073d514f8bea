//! The client of the accurate estimators, which know the nodes of a member cluster.
//!
//! ```text
//! engine ── would like to know ──> Desk ──> service ── spawns ──> EstimatorClient ── one call each ──> servers
//!    ^                                                                  │
//!    └──────────── Desk <── service decides again <── Answers ──────────┘
//! ```
//!
//! [`Connections`] keep one connection for each cluster, in tasks of their own. [`EstimatorClient`] asks all
//! clusters of a decision at once, with one deadline; a cluster that fails degrades only itself, to its last
//! answer or to the general estimate. [`Desk`] lets an engine that does not wait use answers that take time.

mod answers;
mod ask;
mod client;
mod connections;
mod desk;
mod dial;
mod k8s;
mod link;
mod memory;
mod metrics;
mod options;
mod resolve;
mod tls;
pub mod wire;

pub use answers::{Answer, Answers, Missing, MissingKind};
pub use ask::{Ask, AskError, AssumedWork};
pub use client::EstimatorClient;
pub use connections::{ConnectionCounts, Connections};
pub use desk::{AccurateEstimator, Desk, Wanted};
pub use options::{ClientIdentity, EstimatorArgs, EstimatorOptions, EstimatorOptionsError, Tls};
