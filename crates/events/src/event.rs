//! The types of events: [`Note`] and [`Event`], which callers fill, and `Occurrence`, which adds the source and the
//! time.

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
    /// Returns the value for the field `type` of a Kubernetes Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The description of an event, without its object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The type of the event.
    pub severity: Severity,
    /// The reason, one word in CamelCase.
    pub reason: &'static str,
    /// The message for users, a sentence.
    pub message: String,
}

impl Note {
    /// Returns the event for an object.
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

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object.
    pub object: ObjectReference,
    /// The type of the event.
    pub severity: Severity,
    /// The reason, one word in CamelCase.
    pub reason: &'static str,
    /// The message for users, a sentence.
    pub message: String,
}

/// An event with its source and time.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) source: Source,
    pub(crate) event: Event,
    pub(crate) at: Timestamp,
}

/// The component that records an event. The host identifies an instance of a component with several instances, such as
/// kubelet.
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

    /// Returns the source for the instance of the component on a host.
    pub(crate) fn on(&self, host: &str) -> Self {
        Self {
            component: Arc::clone(&self.component),
            host: Some(host.into()),
        }
    }
}
