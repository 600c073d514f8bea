//! The decision about one review: applies Karmada's admission rules, which are in [`berth_api::admission`], and returns
//! the response.
//!
//! The decision is the same as in the in-process admission of Berth's embedded API server. This module must not depend
//! on HTTP.

use berth_api::admission::{
    self, GuardedKind, SystemEnvironment, check_deletion, check_no_execute,
};
use berth_interpreter::check_scripts;
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::review::{AdmissionRequest, AdmissionReview, Operation};
use crate::verdict::{DenialReason, Verdict};

/// The rule for ClusterTaintPolicies that have a taint with the effect `NoExecute`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoExecuteTaints {
    /// Such policies are allowed.
    Allowed,
    /// Such policies are denied, as in karmada-webhook by default.
    #[default]
    Denied,
}

/// Decides about a review, and returns the review with its response.
pub fn decide(endpoint: Endpoint, no_execute: NoExecuteTaints, review: &AdmissionReview) -> Value {
    verdict(endpoint, no_execute, &review.request).respond(review)
}

pub(crate) fn verdict(
    endpoint: Endpoint,
    no_execute: NoExecuteTaints,
    request: &AdmissionRequest,
) -> Verdict {
    let resource = &request.resource;
    if !endpoint.reviews(&resource.group, &resource.resource) {
        return Verdict::denied(
            DenialReason::BadRequest,
            format!(
                "{} does not review the resource {:?} of the API group {:?}: correct the rules of the webhook",
                endpoint.path().unwrap_or("this path"),
                resource.resource,
                resource.group
            ),
        );
    }
    match endpoint {
        Endpoint::DeletionProtection => deletion(request),
        Endpoint::Mutate(kind) => match reviewed_write(request) {
            Ok(Some((operation, object))) => mutation(kind, operation, object),
            Ok(None) => Verdict::allowed(),
            Err(missing) => missing,
        },
        Endpoint::Validate(kind) => match reviewed_write(request) {
            Ok(Some((operation, object))) => {
                let old = request.old_object.as_ref();
                if operation == admission::Operation::Update && old.is_none() {
                    return missing_field("oldObject");
                }
                validation(kind, operation, no_execute, old, object)
            }
            Ok(None) => Verdict::allowed(),
            Err(missing) => missing,
        },
    }
}

/// Returns the operation and the object of a create or update request. Returns `None` for other requests and for
/// subresources, because the rules of the kinds do not cover these requests.
fn reviewed_write(
    request: &AdmissionRequest,
) -> Result<Option<(admission::Operation, &Value)>, Verdict> {
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete | Operation::Connect => return Ok(None),
    };
    if !request.sub_resource.is_empty() {
        return Ok(None);
    }
    match &request.object {
        Some(object) if object.is_object() => Ok(Some((operation, object))),
        _ => Err(missing_field("object")),
    }
}

fn missing_field(field: &str) -> Verdict {
    let message = format!("the request of the AdmissionReview has no {field}");
    Verdict::denied(DenialReason::BadRequest, message)
}

fn mutation(kind: GuardedKind, operation: admission::Operation, object: &Value) -> Verdict {
    let mut changed = object.clone();
    admission::mutate(kind, operation, &mut changed, &mut SystemEnvironment);
    Verdict::Allowed(json_patch::diff(object, &changed))
}

fn validation(
    kind: GuardedKind,
    operation: admission::Operation,
    no_execute: NoExecuteTaints,
    old: Option<&Value>,
    object: &Value,
) -> Verdict {
    let mut errors = Vec::new();
    if kind == GuardedKind::ClusterTaintPolicy && no_execute == NoExecuteTaints::Denied {
        errors.extend(check_no_execute(object));
    }
    if let Err(rejected) = admission::validate(kind, operation, old, object) {
        errors.extend(rejected);
    }
    if kind == GuardedKind::ResourceInterpreterCustomization
        && let Err(rejected) = check_scripts(object)
    {
        errors.push(rejected);
    }
    if errors.is_empty() {
        return Verdict::allowed();
    }
    let reason = match kind {
        GuardedKind::Cluster => DenialReason::Invalid,
        _ => DenialReason::Forbidden,
    };
    Verdict::invalid_fields(reason, errors)
}

fn deletion(request: &AdmissionRequest) -> Verdict {
    if request.operation != Operation::Delete {
        return Verdict::allowed();
    }
    let Some(object) = request.old_object.as_ref().filter(|o| o.is_object()) else {
        return missing_field("oldObject");
    };
    match check_deletion(object) {
        Ok(()) => Verdict::allowed(),
        Err(protected) => Verdict::denied(DenialReason::Forbidden, protected.to_string()),
    }
}

#[cfg(test)]
mod tests;
