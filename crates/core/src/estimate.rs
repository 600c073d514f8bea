//! How many replicas fit: one trait, asked of every estimator, the least answer wins.

mod assumed;
mod component_sets;
mod general;
mod models;
pub(crate) mod vector;

use std::fmt::Debug;

use serde::Serialize;

use crate::fleet::Snapshot;
use crate::request::Request;

pub(crate) use assumed::NOTHING;
pub use assumed::{Assumed, AssumedWorkload};
pub use general::GeneralEstimator;

/// The estimate of a cluster that nobody has given an answer for.
pub const UNBOUNDED: i32 = i32::MAX;

/// What an estimator is asked to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Replicas of the one pod template.
    Replicas,
    /// Whole sets of all components.
    ComponentSets,
}

/// What an estimator may look at.
#[derive(Clone, Copy, Debug)]
pub struct EstimateContext<'a> {
    /// The fleet.
    pub snapshot: &'a Snapshot,
    /// The binding.
    pub request: &'a Request,
    /// What to count.
    pub unit: Unit,
    /// Placed, but not yet seen in what clusters report.
    pub assumed: &'a Assumed,
}

/// Why an estimator has no answer at all. Its partial answers are discarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EstimateError(pub String);

/// What stands behind an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    /// The cluster answered just now.
    Fresh,
    /// It did not; this is its last answer.
    Stale {
        /// How old it is.
        seconds: u64,
        /// Why there is no fresh one.
        reason: String,
    },
    /// There is no answer; other estimators decide.
    Missing {
        /// Why not.
        reason: String,
    },
}

/// Tells how many replicas clusters can take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no estimator",
    note = "implement `estimate` by lowering the numbers of the clusters that have less room"
)]
pub trait Estimator: Debug + Send + Sync {
    /// Its name, as explanations show it.
    fn name(&self) -> &str;

    /// Lowers the estimates of the clusters, given by ordinal in ascending order. A number left as it is
    /// counts as no answer for that cluster.
    ///
    /// # Errors
    /// When there is no answer for any cluster; what was lowered so far is then discarded.
    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError>;

    /// What stands behind its estimate of a cluster, given by ordinal; `None` where there is no more to say
    /// than the number. Asked only where a decision is explained.
    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let _ = (context, cluster);
        None
    }
}

/// Bounds a count to what an estimate holds.
pub(crate) fn bounded(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(UNBOUNDED)
}
