//! The client of Karmada's accurate estimators. An accurate estimator is a gRPC server that reads the nodes of one
//! member cluster, and returns the number of replicas that fit into this cluster.
//!
//! ```text
//! engine ── lookup ──> AnswerCache ── Unanswered ──> scheduler ── task ──> EstimatorClient ── call each ──> servers
//!    ^                                                                           │
//!    └───── AnswerCache <── the scheduler decides again <── Answers ─────────────┘
//! ```
//!
//! - [`EstimatorClient`] calls the estimators of all clusters of a decision at the same time, with one deadline. If the
//!   call for a cluster fails, the scheduler uses the cluster's last answer to an equal request. If there is no such
//!   answer, it uses the general estimate, which depends only on the status of the Cluster object.
//! - [`ConnectionPool`] keeps one connection to the estimator of each cluster. Each connection has its own task.
//! - [`AnswerCache`] passes the answers to the engine, which runs synchronously and never waits for a call.
//! - `request` builds the messages of the protocol, which is in the crate `berth-estimator-protocol`, from a binding.
//!
//! This module must not depend on the scheduler's task, its queue, its plugins or its writes.

mod answer_cache;
mod answers;
mod client;
mod connection;
mod connection_pool;
mod last_known;
mod metrics;
mod open_connection;
mod options;
mod request;
mod resolve;
mod tls;

pub use answer_cache::{AccurateEstimator, AnswerCache, Unanswered};
pub use answers::{Answer, Answers, NoAnswer, NoAnswerKind};
pub use client::EstimatorClient;
pub use connection_pool::{ConnectionCounts, ConnectionPool};
pub use options::{
    ClientIdentity, EstimatorArgs, EstimatorOptions, EstimatorOptionsError, Tls, WithoutService,
};
pub use request::{AssumedWork, EstimateRequest, EstimateRequestError};
