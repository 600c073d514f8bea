//! Who may do what: role-based access control, evaluated from the roles and bindings that are stored.
//!
//! | File | Idea |
//! |---|---|
//! | `attributes` | what a request wants to do, from its method and path alone |
//! | `rule` | a rule of a role: what it allows, and whether it covers another |
//! | `index` | the rules of each subject, kept up to date by the store's changes |
//! | `escalation` | nobody grants what they do not hold |
//! | `bootstrap` | the roles and bindings of an empty cluster |
//!
//! Knows nothing of HTTP and of how users prove who they are.

pub(crate) mod attributes;
pub(crate) mod bootstrap;
pub(crate) mod escalation;
pub(crate) mod index;
pub(crate) mod rule;

use crate::error::{ApiError, Reason, Subject};
use crate::identity::Identity;
use attributes::{Attributes, Target};
use index::{Decision, Index};

/// Refuses what the identity may not do.
pub(crate) fn check(
    index: &Index,
    identity: &Identity,
    wanted: &Attributes<'_>,
) -> Result<(), ApiError> {
    match index.decide(identity, wanted) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied { missing } => Err(denied(identity, wanted, &missing)),
    }
}

/// The refusal of what no rule allows, with the roles that bindings name and that do not exist.
pub(crate) fn denied(identity: &Identity, wanted: &Attributes<'_>, missing: &[String]) -> ApiError {
    let reason = reason(missing);
    refused(identity, wanted, reason.as_deref().unwrap_or_default())
}

/// The refusal, with a reason if there is more to say.
pub(crate) fn refused(identity: &Identity, wanted: &Attributes<'_>, reason: &str) -> ApiError {
    let reason = match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let (user, verb) = (&identity.user, wanted.verb);
    match &wanted.target {
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
            let what = match &*resource.name {
                "" => qualified,
                name => format!("{qualified} \"{name}\""),
            };
            let part = match resource.subresource {
                "" => resource.resource.to_owned(),
                subresource => format!("{}/{subresource}", resource.resource),
            };
            let place = match resource.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let mut error = ApiError::new(
                Reason::Forbidden,
                format!(
                    "{what} is forbidden: User \"{user}\" cannot {verb} resource \"{part}\" in API group \"{}\" {place}{reason}",
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

/// What a denial says of roles that bindings name and that do not exist.
pub(crate) fn reason(missing: &[String]) -> Option<String> {
    joined(missing).map(|m| format!("RBAC: {m}"))
}

/// One message as it is, several in brackets.
pub(crate) fn joined(messages: &[String]) -> Option<String> {
    match messages {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
