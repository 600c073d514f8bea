//! The values of the metrics' labels, such as `scheduled` and `error`. Each value is from Karmada or kube-scheduler.

use berth_engine::{Point, Status};

use super::steps::Step;

/// The result of a cycle. As in Karmada, a binding that fits into no cluster counts as scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CycleResult {
    /// The decision is made and written.
    Scheduled,
    /// The cycle failed. The binding is retried, or waits for a cluster change.
    Error,
}

impl CycleResult {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Error => "error",
        }
    }
}

/// The event that enqueued a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Incoming {
    /// A binding was created or first observed.
    BindingAdd,
    /// The spec of a binding changed.
    BindingUpdate,
    /// An attempt to schedule the binding failed.
    ScheduleAttemptFailure,
    /// A cluster changed.
    ClusterChanged,
}

impl Incoming {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::BindingAdd => "BindingAdd",
            Self::BindingUpdate => "BindingUpdate",
            Self::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            Self::ClusterChanged => "ClusterChanged",
        }
    }
}

/// The result of plugins at an extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PluginResult {
    /// The plugin succeeded. For example, the cluster passed or got a score.
    Success,
    /// The plugin skipped this cycle.
    Skip,
    /// The plugin rejected the cluster or the binding.
    Unschedulable,
    /// The plugin failed.
    Error,
}

impl PluginResult {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Unschedulable => "Unschedulable",
            Self::Error => "Error",
        }
    }
}

impl From<Status> for PluginResult {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::Success,
            Status::Skip => Self::Skip,
            Status::Unschedulable => Self::Unschedulable,
            Status::Error => Self::Error,
        }
    }
}

/// Returns the label of an extension point. Karmada's label for NormalizeScore differs from the name of the extension
/// point.
pub(super) fn point(point: Point) -> &'static str {
    match point {
        Point::NormalizeScore => "ScoreExtensionNormalize",
        point => point.as_str(),
    }
}

pub(super) fn step(step: Step) -> &'static str {
    match step {
        Step::Filter => "Filter",
        Step::Score => "Score",
        Step::Select => "Select",
        Step::Assign => "AssignReplicas",
    }
}
