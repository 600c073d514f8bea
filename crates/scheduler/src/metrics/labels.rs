//! The values of labels, as dashboards know them.

use berth_core::{Point, Status};

use super::steps::Step;

/// How a cycle ended, as metrics count it. A binding that fits nowhere counts as scheduled, as in Karmada.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CycleResult {
    /// Decided and written.
    Scheduled,
    /// Failed, and to be tried again.
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

/// Why a key came into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Incoming {
    /// A binding is new, or new to us.
    BindingAdd,
    /// The spec of a binding changed.
    BindingUpdate,
    /// An attempt failed.
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

/// What plugins answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PluginResult {
    /// The cluster will do; there is a score.
    Success,
    /// There was nothing to do in this cycle.
    Skip,
    /// The cluster will not do.
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

/// Karmada's dashboards know normalisation by a name of its own.
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
