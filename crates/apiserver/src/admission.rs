//! In-process admission hooks of the embedding program.

use serde_json::Value;

pub use crate::error::Cause;

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A replacement or patch.
    Update,
    /// A removal.
    Delete,
}

/// A resource without its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Plural, `deployments`.
    pub resource: &'a str,
}

/// The write being admitted.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// `status`, `scale`, ...
    pub subresource: Option<&'a str>,
    /// Namespace, for namespaced objects.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
    /// The stored object, for updates and deletes.
    pub old_object: Option<&'a Value>,
    /// True for a dry run.
    pub dry_run: bool,
}

/// A denied write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// 422 with a cause for each invalid field.
    Invalid {
        /// The invalid fields.
        causes: Vec<Cause>,
    },
    /// 403 with a message.
    Forbidden {
        /// The message.
        message: String,
    },
}

impl Denial {
    /// Denies a write for one invalid field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let cause = Cause {
            field: field.into(),
            reason: "FieldValueInvalid".to_owned(),
            message: message.into(),
        };
        Self::Invalid {
            causes: vec![cause],
        }
    }

    /// Denies a write as forbidden.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden {
            message: message.into(),
        }
    }
}

/// An in-process admission hook. It must not perform I/O or call the server.
pub trait Admission: Send + Sync + 'static {
    /// Reports whether the hook handles writes of the resource. Called for each write.
    fn handles(&self, resource: &GroupResource<'_>) -> bool;

    /// Changes `object` in the mutating phase. Not called for deletes.
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }

    /// Validates `object` after defaulting, pruning and schema validation. For deletes it is the stored object.
    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }
}
