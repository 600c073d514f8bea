//! Events as callers describe them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::source::Source;

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
    pub fn about(self, object: ObjectReference) -> Happening {
        let Self {
            severity,
            reason,
            message,
        } = self;
        Happening {
            object,
            severity,
            reason,
            message,
        }
    }
}

/// An event of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
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
pub(crate) struct Told {
    pub(crate) source: Source,
    pub(crate) happening: Happening,
    pub(crate) at: Timestamp,
}
