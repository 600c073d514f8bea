//! The metrics' labels and their values, such as `scheduled` and `error`. Each value is from Karmada or kube-scheduler.

use std::fmt::{self, Write as _};

use berth_engine::{Point, Status};
use berth_metrics::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use super::steps::Step;
use crate::rules::schedule_trigger::ScheduleType;

/// The labels of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CycleLabels {
    pub(super) result: CycleResult,
    pub(super) schedule_type: ScheduleType,
}

/// The labels of a stage of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StepLabels {
    pub(super) schedule_step: Step,
}

/// The labels of a run of all plugins at an extension point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PointLabels {
    pub(super) extension_point: PointLabel,
    pub(super) result: PluginResult,
}

/// The labels of a run of one plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct PluginLabels {
    pub(super) extension_point: PointLabel,
    pub(super) plugin: String,
    pub(super) result: PluginResult,
}

/// The label of an event that enqueued a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EventLabels {
    pub(super) event: Incoming,
}

/// The result of a cycle. As in Karmada, a binding that fits into no cluster counts as scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CycleResult {
    /// The decision is made and written.
    Scheduled,
    /// The cycle failed. The binding is retried, or waits for a cluster change.
    Error,
}

impl CycleResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Error => "error",
        }
    }
}

/// The event that enqueued a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Incoming {
    /// A binding was created or first observed.
    BindingAdd,
    /// The spec of a binding changed.
    BindingUpdate,
    /// An attempt to schedule the binding failed.
    ScheduleAttemptFailure,
    /// A cluster changed.
    ClusterChanged,
    /// A quota changed, or its usage fell.
    QuotaChanged,
}

/// The result of plugins at an extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelValue)]
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

/// An extension point as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PointLabel(pub(super) Point);

impl PointLabel {
    /// Returns the label. Karmada's label for NormalizeScore differs from the name of the extension point.
    fn as_str(self) -> &'static str {
        match self.0 {
            Point::NormalizeScore => "ScoreExtensionNormalize",
            point => point.as_str(),
        }
    }
}

impl Step {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "Filter",
            Self::Score => "Score",
            Self::Select => "Select",
            Self::Assign => "AssignReplicas",
        }
    }
}

/// Encodes labels as the text that their method `as_str` returns.
macro_rules! encode_as_text {
    ($($label:ty),*) => {$(
        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    )*};
}

encode_as_text!(CycleResult, PointLabel, ScheduleType, Step);
