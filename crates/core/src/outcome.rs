//! What the engine decides.

use std::sync::Arc;

use crate::error::ScheduleError;

/// The decision about one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Every affinity term that was tried in vain, in order. Empty without terms.
    pub failed_terms: Vec<FailedTerm>,
    /// Where the workload goes; or, when no term will do, why the first one tried does not.
    pub result: Result<Placement, ScheduleError>,
}

/// An affinity term that was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTerm {
    /// Its place in `clusterAffinities`.
    pub index: usize,
    /// Why it will not do.
    pub error: ScheduleError,
}

/// Where a workload goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The clusters with their replicas. An order is part of it, but means nothing.
    pub targets: Vec<Target>,
    /// The name of the affinity term that was used.
    pub affinity: Option<Arc<str>>,
}

/// A cluster that a workload goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: Arc<str>,
    /// The replicas it gets; 0 for what has no replicas.
    pub replicas: i32,
    /// The replicas by component, under the gate MultiplePodTemplatesScheduling.
    pub components: Vec<TargetComponent>,
}

/// The replicas of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetComponent {
    /// The component.
    pub name: String,
    /// Its replicas.
    pub replicas: i32,
}
