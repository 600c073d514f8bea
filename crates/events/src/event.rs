//! Events as callers describe them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// An expected event.
    Normal,
    /// A problem.
    Warning,
}

impl Severity {
    /// Returns the `type` of the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event without its object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The type of the event.
    pub severity: Severity,
    /// The reason in one CamelCase word.
    pub reason: &'static str,
    /// The message in a sentence.
    pub message: String,
}

impl Note {
    /// Returns the event of an object.
    pub fn about(self, object: ObjectReference) -> Event {
        let Self {
            severity,
            reason,
            message,
        } = self;
        Event {
            object,
            severity,
            reason,
            message,
        }
    }
}

/// An event of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object.
    pub object: ObjectReference,
    /// The type of the event.
    pub severity: Severity,
    /// The reason in one CamelCase word.
    pub reason: &'static str,
    /// The message in a sentence.
    pub message: String,
}

/// An event with its source and time.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) source: Source,
    pub(crate) event: Event,
    pub(crate) at: Timestamp,
}

/// A component, and its host if there are several instances, such as kubelets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(crate) component: Arc<str>,
    pub(crate) host: Option<Arc<str>>,
}

impl Source {
    pub(crate) fn new(component: &str) -> Self {
        Self {
            component: component.into(),
            host: None,
        }
    }

    /// Returns the source for a host.
    pub(crate) fn on(&self, host: &str) -> Self {
        Self {
            component: Arc::clone(&self.component),
            host: Some(host.into()),
        }
    }
}
