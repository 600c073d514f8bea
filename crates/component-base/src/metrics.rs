//! Metrics that Berth's programs share.
//!
//! - `requests` counts the requests of a client. `workqueue` measures work queues.
//! - `process`, `build_info` and `leader_election` describe the process.

pub mod build_info;
pub mod leader_election;
pub mod requests;
pub mod workqueue;

pub use berth_metrics::process;
