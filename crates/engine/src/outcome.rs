//! The outcome of a decision: clusters with replicas, or the reason why the workload is not placed.

use std::sync::Arc;

use crate::error::ScheduleError;

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The affinity terms that were tried and are infeasible, in order. Empty if the placement has no affinity terms.
    pub failed_terms: Vec<FailedTerm>,
    /// The placement, or an error. If all tried affinity terms are infeasible, this is the error of the first of these
    /// terms.
    pub result: Result<Placement, ScheduleError>,
}

/// An infeasible affinity term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTerm {
    /// The index of the term in `clusterAffinities`.
    pub index: usize,
    /// The reason why the term is infeasible.
    pub error: ScheduleError,
}

/// The clusters that a decision assigns to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The clusters with their replicas. Their order has no meaning, but equal decisions have the same order.
    pub targets: Vec<Target>,
    /// The name of the affinity term in use, or `None` if the placement has no affinity terms.
    pub affinity: Option<Arc<str>>,
    /// The number of requested replicas for which no cluster has room. 0 unless the limits of the binding allow that
    /// replicas wait (`"fit": "BestEffort"`).
    pub waiting: i64,
}

/// A cluster that a decision assigns to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the cluster.
    pub name: Arc<str>,
    /// The assigned replicas, 0 for a resource without replicas.
    pub replicas: i32,
    /// The replicas of each component. Empty unless the workload has several components and the decision counted
    /// component sets (feature gate MultiplePodTemplatesScheduling).
    pub components: Vec<TargetComponent>,
}

/// The replicas of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetComponent {
    /// The name of the component.
    pub name: String,
    /// The number of replicas.
    pub replicas: i32,
}
