//! Errors about the fields of an object, and the paths of these fields.

use std::fmt;

/// The class of a field error. Each class has a reason in the causes of Kubernetes' `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The value is not allowed.
    Invalid,
    /// A required value is missing.
    Required,
    /// The value is not one of the supported values.
    NotSupported,
    /// The field must not be set or changed.
    Forbidden,
    /// The value is a duplicate.
    Duplicate,
    /// The value is too long.
    TooLong,
}

impl Reason {
    /// Returns the reason that Kubernetes' `Status` uses for this class.
    pub fn as_cause(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

/// A rejected field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// The path of the field, for example `spec.placement.spreadConstraints[0].maxGroups`.
    pub field: String,
    /// The class of the rejection.
    pub reason: Reason,
    /// The human-readable explanation.
    pub message: String,
}

/// The path to a field.
#[derive(Clone, Debug)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    pub(super) fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub(super) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub(super) fn error(&self, reason: Reason, message: impl Into<String>) -> FieldError {
        FieldError {
            field: self.0.clone(),
            reason,
            message: message.into(),
        }
    }

    pub(super) fn invalid(&self, message: impl Into<String>) -> FieldError {
        self.error(Reason::Invalid, message)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
