//! The scenarios of the load generator. They measure the scheduler, `berth up` with its members, the API server, and
//! the scheduling engine.
//!
//! A measured program runs in a separate process, so that its processor time and memory can be read. In scenarios that
//! measure the scheduler, the embedded API server runs in the process of the load generator. The scheduling engine is a
//! library and runs in this process too.

mod burst;
mod estimators;
mod expressions;
mod fan_out;
mod members;
mod process;
mod propagation;
mod requests;
mod scale;
mod scheduler_process;
mod server;
mod server_process;
mod side_by_side;
mod starvation;
mod steady;
mod up_process;
mod workload;

pub use burst::{Burst, burst};
pub use estimators::{Estimators, estimators};
pub use expressions::{Expressions, expressions};
pub use members::{Members, members};
pub use propagation::{Propagation, propagation};
pub use scale::{Scale, scale};
pub use server::{ServerLoad, server};
pub use server_process::{Storage, run_api_server};
pub use side_by_side::{Program, SideBySide, side_by_side};
pub use starvation::{Starvation, starvation};
pub use steady::{Steady, steady};

use std::fmt::Debug;
use std::time::Duration;

use berth_component_base::list_watch::{self, Config};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::Api;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;

/// Error of a load scenario.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The scheduler process does not start, or has exited.
    #[error("the scheduler: {0}")]
    Scheduler(String),
    /// A request to the server fails.
    #[error("the API server: {0}")]
    Server(#[from] kube::Error),
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Connect(#[from] berth_component_base::kube_client::ConnectError),
    /// A step of the scenario takes too long.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// Description of the step.
        what: String,
        /// The time limit.
        limit: Duration,
    },
    /// Any other failure, such as an unexpected response. The value is the message.
    #[error("{0}")]
    Unexpected(String),
}

/// Returns the rate per second, rounded to one decimal.
fn rate(count: usize, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let count = count as f64;
    (count / time.as_secs_f64() * 10.0).round() / 10.0
}

/// Converts a duration to milliseconds, rounded to two decimals.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Returns a percentile of sorted values with the nearest-rank method. `part` is a fraction: 0.5 selects the median.
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

/// Converts a duration to seconds, rounded to two decimals.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}

/// Returns a JSON object with a measurement, its upper limit, and the result of their comparison.
fn at_most(measured: f64, target: f64) -> serde_json::Value {
    serde_json::json!({ "measured": measured, "at most": target, "met": measured <= target })
}

/// Watches objects forever. Returns each listed, new or changed object.
fn watch<K>(api: Api<K>) -> BoxStream<'static, K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    list_watch::events(api, Config::default())
        .filter_map(async |event| match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => Some(object),
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) | Err(_) => None,
        })
        .boxed()
}
