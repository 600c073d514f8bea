//! Estimates of the number of replicas that fit into clusters. The engine uses the lowest estimate of all estimators.

mod assumed;
mod component_sets;
mod devices;
mod general;
mod nodes;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::fleet::{Snapshot, UnmetRequirement};
use crate::request::Request;

pub(crate) use assumed::no_assumptions;
pub use assumed::{Assumed, AssumedWorkload};
pub use general::GeneralEstimator;

/// The estimate of a cluster for which no estimator has an answer.
pub const UNBOUNDED: i32 = i32::MAX;

/// The unit in which an estimator counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Replicas of the workload.
    Replicas,
    /// Component sets. One set contains all replicas of all components of the workload.
    ComponentSets,
}

/// The input of an estimator.
#[derive(Clone, Copy, Debug)]
pub struct EstimateContext<'a> {
    /// The snapshot of the fleet.
    pub snapshot: &'a Snapshot,
    /// The parsed binding.
    pub request: &'a Request,
    /// The unit in which the estimator must count.
    pub unit: Unit,
    /// Corrections for workloads that clusters do not report correctly yet.
    pub assumed: &'a Assumed,
}

/// The reason why an estimator has no answer. The engine discards the estimates that the estimator wrote before this
/// error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EstimateError(pub String);

/// The basis of an estimate: a current, an old or a missing response of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    /// A current response of the cluster.
    Fresh,
    /// The last known response of the cluster, because there is no current response.
    Stale {
        /// The age of the response in seconds.
        seconds: u64,
        /// The reason why there is no current response.
        reason: String,
    },
    /// No response. The estimates of other estimators decide.
    Missing {
        /// The reason why there is no response.
        reason: String,
    },
    /// The nodes that the cluster reports.
    Nodes {
        /// The number of nodes whose labels and taints allow the pods.
        matching: i64,
        /// The number of all nodes.
        nodes: i64,
        /// The first requirement of the pods that no node satisfies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unmet: Option<UnmetRequirement>,
    },
}

/// A plugin that estimates how many replicas fit into clusters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an estimator",
    note = "implement `estimate` so that it lowers the estimates of clusters"
)]
pub trait Estimator: Debug + Send + Sync {
    /// Returns the estimator name, which appears in explanations.
    fn name(&self) -> &str;

    /// Lowers the estimates of clusters. An estimate is negative if the current replicas exceed the capacity.
    /// `clusters` contains ordinals in ascending order, and `estimates` contains the
    /// estimate of the cluster at the same index. An estimate that stays [`UNBOUNDED`] means that the estimator has no
    /// answer for this cluster.
    ///
    /// # Errors
    /// Returns an error if the estimator has no answer for any cluster. The engine then discards the changes of
    /// `estimates`.
    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError>;

    /// Returns the basis of the estimate for the cluster with this ordinal. Returns `None` if the estimator knows
    /// nothing beyond the estimate itself. The engine calls this method only when it explains a decision.
    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let _ = (context, cluster);
        None
    }
}

/// Clamps a count to the range of estimates: 0 to [`UNBOUNDED`].
pub(crate) fn bounded(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(UNBOUNDED)
}
