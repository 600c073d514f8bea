//! Client of the accurate estimators, the gRPC servers that know the nodes of their member cluster.
//!
//! ```text
//! engine ── lookup ──> AnswerCache ── Unanswered ──> scheduler ── task ──> EstimatorClient ── call each ──> servers
//!    ^                                                                           │
//!    └───── AnswerCache <── the scheduler decides again <── Answers ─────────────┘
//! ```
//!
//! - [`EstimatorClient`] calls all clusters of a decision at once, with one deadline. A cluster that fails degrades only
//!   itself: to its last answer, or to the general estimate.
//! - [`Connections`] keeps one connection for each cluster, each in its own task.
//! - [`AnswerCache`] gives asynchronous answers to an engine that never waits.
//! - [`wire`] holds the protocol, `request` builds its messages from a binding.
//!
//! Must not know: the scheduler's task, queue, plugins and writes.

mod answer_cache;
mod answers;
mod client;
mod connect;
mod connection;
mod connections;
mod kubernetes_types;
mod last_known;
mod metrics;
mod options;
mod request;
mod resolve;
mod tls;
pub mod wire;

pub use answer_cache::{AccurateEstimator, AnswerCache, Unanswered};
pub use answers::{Answer, Answers, NoAnswer, NoAnswerKind};
pub use client::EstimatorClient;
pub use connections::{ConnectionCounts, Connections};
pub use options::{ClientIdentity, EstimatorArgs, EstimatorOptions, EstimatorOptionsError, Tls};
pub use request::{AssumedWork, EstimateRequest, EstimateRequestError};
