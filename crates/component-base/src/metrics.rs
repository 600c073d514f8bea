//! Metrics that Berth's programs share, and the parts from which programs build their own: families, histograms and the
//! Prometheus text format.
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
