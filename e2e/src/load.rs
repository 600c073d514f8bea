//! The load generator: what a scheduler process achieves on the embedded server, and what `berth up` achieves with its
//! members, in figures.
//!
//! What is measured is a process of its own, so that its processor time and memory are its own. Where that is the
//! scheduler, the server and the generator share this process.

mod burst;
mod expressions;
mod fan_out;
mod herd;
mod hostile;
mod members;
mod process;
mod propagation;
mod requests;
mod scale;
mod server;
mod server_process;
mod steady;
mod subject;
mod whole;
mod workload;

pub use burst::{Burst, burst};
pub use expressions::{Expressions, expressions};
pub use herd::{Herd, herd};
pub use hostile::{Hostile, Siege, Waits, hostile};
pub use members::{Members, members};
pub use propagation::{Propagation, propagation};
pub use scale::{Scale, scale};
pub use server::{ServerLoad, server};
pub use server_process::{Keeping, serve};
pub use steady::{Steady, steady};

use std::time::Duration;

/// A scenario that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The scheduler process does not start, or ended.
    #[error("the scheduler: {0}")]
    Subject(String),
    /// The server refuses something.
    #[error("the API server: {0}")]
    Server(#[from] kube::Error),
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Connect(#[from] berth_scheduler::connect::ConnectError),
    /// It takes too long.
    #[error("{what} took longer than {limit:?}")]
    Late {
        /// What took so long.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// The result is not what it should be.
    #[error("{0}")]
    Wrong(String),
}

/// So many things in this time, each second.
fn rate(count: usize, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let count = count as f64;
    (count / time.as_secs_f64() * 10.0).round() / 10.0
}

/// Milliseconds with two digits.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// The value below which such a part of the sorted values is.
fn percentile(sorted: &[Duration], part: f64) -> Duration {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a small list"
    )]
    let index = ((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

/// Seconds with two digits.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}

/// A figure that should not be larger than its target.
fn at_most(measured: f64, target: f64) -> serde_json::Value {
    serde_json::json!({ "measured": measured, "at most": target, "met": measured <= target })
}
