//! In-process admission hooks, with which the embedding program changes and denies writes.

use serde_json::Value;

pub use crate::error::Cause;

/// The operation of a write that is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A replacement or patch.
    Update,
    /// A removal.
    Delete,
}

/// A resource type without its API version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Plural name, for example `deployments`.
    pub resource: &'a str,
}

/// The write being admitted.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// API group, empty for the core group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource, for example `status` or `scale`.
    pub subresource: Option<&'a str>,
    /// Namespace of the object, `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
    /// The stored object before an update or delete.
    pub old_object: Option<&'a Value>,
    /// True for a dry run.
    pub dry_run: bool,
}

/// The response for a denied write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// Status 422 with a cause for each invalid field.
    Invalid {
        /// The invalid fields.
        causes: Vec<Cause>,
    },
    /// Status 403 with a message.
    Forbidden {
        /// The message.
        message: String,
    },
    /// The response for a write that an admission webhook with this name denied.
    Webhook {
        /// The name of the webhook.
        name: &'static str,
        /// The `Status` in the response of the webhook.
        status: Value,
    },
}

impl Denial {
    /// Returns a denial that names one invalid field.
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

    /// Returns a denial that forbids the write.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::Forbidden {
            message: message.into(),
        }
    }
}

/// The accounts that a write changes: objects of one kind, in the namespace of the write, that count what the objects of
/// the namespace use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounts {
    /// API group of the accounts.
    pub group: &'static str,
    /// Plural name of the accounts.
    pub resource: &'static str,
}

/// An in-process admission hook. A hook must not perform I/O or call the server.
pub trait Admission: Send + Sync + 'static {
    /// Reports whether the hook handles writes of the resource. The server calls this method for each write.
    fn handles(&self, resource: &GroupResource<'_>) -> bool;

    /// Changes `object` in the mutating phase. The server does not call this method for deletes.
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }

    /// Validates `object` after defaulting, pruning and schema validation. For a delete, `object` is the stored object.
    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        let _ = (request, object);
        Ok(())
    }

    /// Returns the accounts that the write may change.
    fn accounts(&self, request: &AdmissionRequest<'_>) -> Option<Accounts> {
        let _ = request;
        None
    }

    /// Charges a write that passed all checks to the accounts of its namespace. Returns the new content of the accounts
    /// that change. The server stores them together with the write, and stores neither if the other one fails.
    fn charge(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        accounts: &[Value],
    ) -> Result<Vec<Value>, Denial> {
        let _ = (request, object, accounts);
        Ok(Vec::new())
    }
}
