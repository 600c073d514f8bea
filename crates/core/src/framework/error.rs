//! What went wrong in a plugin: which plugin, at which point, and what follows from it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::point::Point;

/// What is wrong, in the plugin's words, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The workload cannot be placed as things are: it waits for a change.
    Unschedulable(String),
    /// The plugin could not do its work: the binding is tried again.
    Failed(String),
    /// The plugin panicked: the binding is tried again.
    Panicked(String),
}

/// A plugin stopped the cycle.
///
/// Plugins make one with [`Self::unschedulable`] or [`Self::failed`]; whoever called the plugin fills in its
/// name and the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError(Box<Told>);

/// Apart, because results without an error are moved about all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    origin: Option<(Arc<str>, Point)>,
    failure: Failure,
}

impl PluginError {
    /// The workload cannot be placed as things are: it waits for a change.
    pub fn unschedulable(message: impl Into<String>) -> Self {
        Self::new(Failure::Unschedulable(message.into()))
    }

    /// The plugin could not do its work: the binding is tried again.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Failure::Failed(message.into()))
    }

    /// The plugin panicked with this, as [`std::panic::catch_unwind`] caught it.
    pub fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a message");
        Self::new(Failure::Panicked(text.to_owned()))
    }

    fn new(failure: Failure) -> Self {
        Self(Box::new(Told {
            origin: None,
            failure,
        }))
    }

    /// Says which plugin, and at which point.
    #[must_use]
    #[cold]
    pub fn of(mut self, plugin: &Arc<str>, point: Point) -> Self {
        self.0.origin = Some((Arc::clone(plugin), point));
        self
    }

    /// The plugin; empty before it is filled in.
    pub fn plugin(&self) -> &str {
        self.0.origin.as_ref().map_or("", |(plugin, _)| plugin)
    }

    /// The point; None before it is filled in.
    pub fn point(&self) -> Option<Point> {
        self.0.origin.as_ref().map(|(_, point)| *point)
    }

    /// What is wrong.
    pub fn failure(&self) -> &Failure {
        &self.0.failure
    }

    /// Whether the binding waits for a change instead of being tried again.
    pub fn is_unschedulable(&self) -> bool {
        matches!(self.0.failure, Failure::Unschedulable(_))
    }
}

impl std::error::Error for PluginError {}

/// In Karmada's words where it has some: it does not name the plugin that selects or assigns.
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
    fn an_error_says_who_where_and_what() {
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
