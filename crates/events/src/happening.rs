//! What is told.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::source::Source;

/// Good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Good news.
    Normal,
    /// Bad news.
    Warning,
}

impl Severity {
    /// As events have it in their `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What is said, whatever it is said of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Good or bad news.
    pub severity: Severity,
    /// One CamelCase word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Note {
    /// The same, said of this object.
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

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// The object.
    pub object: ObjectReference,
    /// Good or bad news.
    pub severity: Severity,
    /// One CamelCase word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// A happening, who tells of it, and when it was told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) source: Source,
    pub(crate) happening: Happening,
    pub(crate) at: Timestamp,
}
