//! In-process admission: the one place where the program around this server may change or refuse a write.
//! The server knows this trait and nothing of what is behind it.

use serde_json::Value;

pub use crate::error::Cause;

/// What is being done to the object.
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
    /// What is being done.
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
    /// True if nothing will be stored.
    pub dry_run: bool,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// 422 with one cause a field.
    Invalid {
        /// The fields that were refused.
        causes: Vec<Cause>,
    },
    /// 403 with a reason for people.
    Forbidden {
        /// Why.
        message: String,
    },
}

impl Denial {
    /// A refusal of one field.
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

    /// A refusal of the request as such.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden {
            message: message.into(),
        }
    }
}

/// An in-process admission hook. Synchronous and pure: no I/O, no calls back into the server.
pub trait Admission: Send + Sync + 'static {
    /// True if this hook wants writes of the resource. Cheap: called for each write.
    fn handles(&self, resource: &GroupResource<'_>) -> bool;

    /// Mutating phase. May change `object` in place: defaults, labels, finalizers. Not called for deletes.
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }

    /// Validating phase, after schema defaulting, pruning and validation of the mutated object.
    /// For deletes `object` is the stored object.
    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }
}
