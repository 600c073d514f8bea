//! The outcome of a decision: clusters with replicas, or the reason that a binding is not placed.

use std::sync::Arc;

use crate::error::ScheduleError;

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The infeasible affinity terms, in order; empty if the placement has no terms.
    pub failed_terms: Vec<FailedTerm>,
    /// The placement. If all tried terms are infeasible, the error of the first one.
    pub result: Result<Placement, ScheduleError>,
}

/// An infeasible affinity term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTerm {
    /// The index in `clusterAffinities`.
    pub index: usize,
    /// The reason.
    pub error: ScheduleError,
}

/// The clusters of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The clusters with their replicas, in an unspecified but stable order.
    pub targets: Vec<Target>,
    /// The name of the affinity term in use.
    pub affinity: Option<Arc<str>>,
}

/// A cluster of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the cluster.
    pub name: Arc<str>,
    /// The assigned replicas; 0 for resources without replicas.
    pub replicas: i32,
    /// The replicas of each component (gate MultiplePodTemplatesScheduling).
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
