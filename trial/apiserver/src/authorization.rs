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
//! This module must not know how users authenticate.

pub(crate) mod attributes;
pub(crate) mod bootstrap;
pub(crate) mod escalation;
pub(crate) mod index;
pub(crate) mod rule;

use crate::error::{ApiError, Reason};
use crate::identity::Identity;
use attributes::{Attributes, Target};
use index::Index;

/// Refuses a request that no RBAC rule allows.
pub(crate) fn check(
    index: &Index,
    identity: &Identity,
    attributes: &Attributes<'_>,
) -> Result<(), ApiError> {
    if index.allows(identity, attributes) {
        return Ok(());
    }
    let (user, verb) = (&identity.user, attributes.verb);
    Err(match &attributes.target {
        Target::Path(path) => {
            let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
            let mut error = ApiError::new(Reason::Forbidden, message);
            error.subject = Some(Box::default());
            error
        }
        Target::Resource(target) => {
            let resource = match target.subresource {
                "" => target.resource.to_owned(),
                subresource => format!("{}/{subresource}", target.resource),
            };
            let scope = match target.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let detail = format!(
                "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {scope}",
                target.group
            );
            ApiError::forbidden(target.group, target.resource, &target.name, &detail)
        }
    })
}
