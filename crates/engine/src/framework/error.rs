//! Errors of plugins. An error contains the plugin name, the extension point, and the consequence for the binding.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::point::Point;
use crate::scheduled_reason::ScheduledReason;

/// The message of an error, and its consequence for the binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The workload cannot be scheduled now. The binding waits for a change.
    Unschedulable(String),
    /// The plugin failed. The scheduler retries the binding.
    Failed(String),
    /// The plugin panicked. The scheduler retries the binding.
    Panicked(String),
}

/// An error or a panic of a plugin.
///
/// Plugins create an error with [`Self::unschedulable`] or [`Self::failed`]. The engine adds the plugin name and the
/// extension point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError(Box<ErrorDetails>);

/// The content of an error. Errors are rare, so [`PluginError`] boxes this content to keep results small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorDetails {
    origin: Option<(Arc<str>, Point)>,
    failure: Failure,
}

impl PluginError {
    /// Creates an error for a workload that cannot be scheduled now. The binding waits for a change.
    pub fn unschedulable(message: impl Into<String>) -> Self {
        Self::new(Failure::Unschedulable(message.into()))
    }

    /// Creates an error for a failed plugin. The scheduler retries the binding.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Failure::Failed(message.into()))
    }

    /// Creates an error from the payload of [`std::panic::catch_unwind`].
    pub fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a message");
        Self::new(Failure::Panicked(text.to_owned()))
    }

    fn new(failure: Failure) -> Self {
        Self(Box::new(ErrorDetails {
            origin: None,
            failure,
        }))
    }

    /// Sets the plugin name and the extension point.
    #[must_use]
    #[cold]
    pub fn of(mut self, plugin: &Arc<str>, point: Point) -> Self {
        self.0.origin = Some((Arc::clone(plugin), point));
        self
    }

    /// Returns the plugin name, or an empty string if the name is not set.
    pub fn plugin(&self) -> &str {
        self.0.origin.as_ref().map_or("", |(plugin, _)| plugin)
    }

    /// Returns the extension point, or `None` if the point is not set.
    pub fn point(&self) -> Option<Point> {
        self.0.origin.as_ref().map(|(_, point)| *point)
    }

    /// Returns the message and the consequence for the binding.
    pub fn failure(&self) -> &Failure {
        &self.0.failure
    }

    /// Reports whether the binding waits for a change. After other errors, the scheduler retries the binding.
    pub fn is_unschedulable(&self) -> bool {
        matches!(self.0.failure, Failure::Unschedulable(_))
    }

    /// Returns the reason that the scheduler sets in the condition `Scheduled`.
    pub fn reason(&self) -> ScheduledReason {
        if self.is_unschedulable() {
            ScheduledReason::Unschedulable
        } else {
            ScheduledReason::SchedulerError
        }
    }
}

impl std::error::Error for PluginError {}

/// Formats the error like Karmada. Errors of selection and assignment, except panics, do not contain the plugin name.
impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugin = self.plugin();
        let (text, verb) = match (self.failure(), self.point()) {
            (Failure::Panicked(text), _) => (text, "panicked"),
            (Failure::Unschedulable(text) | Failure::Failed(text), None) => {
                return f.write_str(text);
            }
            (Failure::Unschedulable(text) | Failure::Failed(text), Some(Point::Select)) => {
                return write!(f, "failed to select clusters: {text}");
            }
            (Failure::Unschedulable(text) | Failure::Failed(text), Some(Point::Assign)) => {
                return write!(f, "failed to assign replicas: {text}");
            }
            (Failure::Failed(text), Some(Point::Score)) => {
                return write!(
                    f,
                    "failed to prioritize clusters: plugin {plugin:?} failed with: {text}"
                );
            }
            (Failure::Unschedulable(text), Some(_)) => (text, "refuses the binding"),
            (Failure::Failed(text), Some(_)) => (text, "failed"),
        };
        match self.point() {
            Some(point) => write!(f, "plugin {plugin:?} {verb} at {point}: {text}"),
            None => write!(f, "the plugin {verb}: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_plugin_point_and_message() {
        let name: Arc<str> = "Costs".into();
        let unschedulable = || PluginError::unschedulable("no budget");
        let failed = || PluginError::failed("no prices");
        for (error, text) in [
            (failed(), "no prices"),
            (
                failed().of(&name, Point::PreFilter),
                "plugin \"Costs\" failed at PreFilter: no prices",
            ),
            (
                failed().of(&name, Point::Score),
                "failed to prioritize clusters: plugin \"Costs\" failed with: no prices",
            ),
            (
                failed().of(&name, Point::Select),
                "failed to select clusters: no prices",
            ),
            (
                unschedulable().of(&name, Point::Assign),
                "failed to assign replicas: no budget",
            ),
            (
                unschedulable().of(&name, Point::Permit),
                "plugin \"Costs\" refuses the binding at Permit: no budget",
            ),
            (
                PluginError::panicked(&"index out of bounds").of(&name, Point::Select),
                "plugin \"Costs\" panicked at Select: index out of bounds",
            ),
            (
                PluginError::panicked(&String::from("no")).of(&name, Point::Filter),
                "plugin \"Costs\" panicked at Filter: no",
            ),
            (
                PluginError::panicked(&1_u8).of(&name, Point::Filter),
                "plugin \"Costs\" panicked at Filter: without a message",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
