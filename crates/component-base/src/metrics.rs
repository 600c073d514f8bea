//! Metrics in the Prometheus text format 0.0.4.
//!
//! - `exposition` writes the text. `histogram` counts durations. `families` stores metric families with labels.
//! - `requests` counts the requests of a client. `workqueue` measures work queues.
//! - `process`, `build_info` and `leader_election` describe the process.

pub mod build_info;
pub mod exposition;
pub mod families;
pub mod histogram;
pub mod leader_election;
pub mod process;
pub mod requests;
pub mod workqueue;
