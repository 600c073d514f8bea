//! Estimates of the replicas that fit into clusters. The lowest estimate of all estimators is used.

mod assumed;
mod component_sets;
mod general;
mod models;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::fleet::Snapshot;
use crate::request::Request;

pub(crate) use assumed::NO_ASSUMPTIONS;
pub use assumed::{Assumed, AssumedWorkload};
pub use general::GeneralEstimator;

/// The estimate of a cluster for which no estimator has an answer.
pub const UNBOUNDED: i32 = i32::MAX;

/// The unit that an estimator counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Replicas of the only pod template.
    Replicas,
    /// Complete sets of all components.
    ComponentSets,
}

/// The input of an estimator.
#[derive(Clone, Copy, Debug)]
pub struct EstimateContext<'a> {
    /// The fleet.
    pub snapshot: &'a Snapshot,
    /// The binding.
    pub request: &'a Request,
    /// The unit to count.
    pub unit: Unit,
    /// Workloads that clusters do not report correctly yet.
    pub assumed: &'a Assumed,
}

/// The reason why an estimator has no answer. Its partial answers are discarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EstimateError(pub String);

/// The basis of an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    /// A current answer of the cluster.
    Fresh,
    /// The last known answer, because there is no current one.
    Stale {
        /// The age of the answer in seconds.
        seconds: u64,
        /// The reason why there is no current answer.
        reason: String,
    },
    /// No answer; other estimators decide.
    Missing {
        /// The reason why there is no answer.
        reason: String,
    },
}

/// Estimates how many replicas clusters can take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no estimator",
    note = "implement `estimate` so that it lowers the numbers of clusters with less capacity"
)]
pub trait Estimator: Debug + Send + Sync {
    /// Returns the name for explanations.
    fn name(&self) -> &str;

    /// Lowers the estimates of the clusters, given by ordinal in ascending order. An unchanged estimate counts
    /// as no answer for the cluster.
    ///
    /// # Errors
    /// When there is no answer for any cluster. The engine then discards the changes.
    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError>;

    /// Returns the basis of the estimate of a cluster, given by ordinal, or `None` if there is nothing to
    /// add to the number. Called only for explanations.
    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let _ = (context, cluster);
        None
    }
}

/// Clamps a count to the range of estimates.
pub(crate) fn bounded(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(UNBOUNDED)
}
