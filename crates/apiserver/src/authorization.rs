//! Role-based access control, evaluated from the stored roles and bindings.
//!
//! | Module | Contents |
//! |---|---|
//! | `attributes` | the verb and target of a request, from its method and path |
//! | `rule` | the rules of roles: matching and coverage |
//! | `index` | the rules of each subject, updated with each change of the store |
//! | `escalation` | the prevention of privilege escalation |
//! | `bootstrap` | the roles and bindings of a new cluster |
//!
//! It must not know how users authenticate.

pub(crate) mod attributes;
pub(crate) mod bootstrap;
pub(crate) mod escalation;
pub(crate) mod index;
pub(crate) mod rule;

use crate::error::{ApiError, Reason, Subject};
use crate::identity::Identity;
use attributes::{Attributes, Target};
use index::{Decision, Index};

/// Refuses a request that no rule allows.
pub(crate) fn check(
    index: &Index,
    identity: &Identity,
    attributes: &Attributes<'_>,
) -> Result<(), ApiError> {
    match index.decide(identity, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied { missing } => Err(denied(identity, attributes, &missing)),
    }
}

/// Returns the error for a denied request, with the missing roles of bindings.
pub(crate) fn denied(
    identity: &Identity,
    attributes: &Attributes<'_>,
    missing: &[String],
) -> ApiError {
    let reason = reason(missing);
    refused(identity, attributes, reason.as_deref().unwrap_or_default())
}

/// Returns the error for a denied request with an optional reason.
pub(crate) fn refused(identity: &Identity, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let reason = match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let (user, verb) = (&identity.user, attributes.verb);
    match &attributes.target {
        Target::Path(path) => {
            let mut error = ApiError::new(
                Reason::Forbidden,
                format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"{reason}"),
            );
            error.subject = Some(Box::default());
            error
        }
        Target::Resource(resource) => {
            let qualified = match resource.group {
                "" => resource.resource.to_owned(),
                group => format!("{}.{group}", resource.resource),
            };
            let object = match &*resource.name {
                "" => qualified,
                name => format!("{qualified} \"{name}\""),
            };
            let qualified_resource = match resource.subresource {
                "" => resource.resource.to_owned(),
                subresource => format!("{}/{subresource}", resource.resource),
            };
            let scope = match resource.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let mut error = ApiError::new(
                Reason::Forbidden,
                format!(
                    "{object} is forbidden: User \"{user}\" cannot {verb} resource \"{qualified_resource}\" in API group \"{}\" {scope}{reason}",
                    resource.group
                ),
            );
            error.subject = Some(Box::new(Subject {
                group: resource.group.to_owned(),
                kind: resource.resource.to_owned(),
                name: resource.name.clone().into_owned(),
                uid: String::new(),
            }));
            error
        }
    }
}

/// Returns the reason for missing roles of bindings.
pub(crate) fn reason(missing: &[String]) -> Option<String> {
    joined(missing).map(|m| format!("RBAC: {m}"))
}

/// Joins messages, in brackets if there are several.
pub(crate) fn joined(messages: &[String]) -> Option<String> {
    match messages {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
