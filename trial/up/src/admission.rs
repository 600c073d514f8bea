//! Karmada's admission rules as a hook of the embedded API server. [`KarmadaAdmission`] implements the server's trait
//! [`Admission`] with the rules of the crate `berth_api`, which check objects as JSON.

use berth_api::admission::{self, FieldError, GuardedKind, SystemEnvironment, check_deletion};
use berth_apiserver::{Admission, AdmissionRequest, Cause, Denial, GroupResource, Operation};
use berth_interpreter::check_scripts;
use serde_json::Value;

/// The rules of Karmada's mutating and validating webhooks, called inside the process of the API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct KarmadaAdmission;

impl Admission for KarmadaAdmission {
    /// Returns true for every resource, because any object may carry the label that forbids its deletion.
    fn handles(&self, _: &GroupResource<'_>) -> bool {
        true
    }

    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        if let Some((kind, operation)) = guarded(request) {
            admission::mutate(kind, operation, object, &mut SystemEnvironment);
        }
        Ok(())
    }

    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        if request.operation == Operation::Delete {
            return check_deletion(object)
                .map_err(|refusal| Denial::forbidden(refusal.to_string()));
        }
        let Some((kind, operation)) = guarded(request) else {
            return Ok(());
        };
        let invalid = |errors: Vec<FieldError>| Denial::Invalid {
            causes: errors.into_iter().map(cause).collect(),
        };
        if kind == GuardedKind::ResourceInterpreterCustomization {
            check_scripts(object).map_err(|error| invalid(vec![error]))?;
        }
        admission::validate(kind, operation, request.old_object, object).map_err(invalid)
    }
}

fn cause(error: FieldError) -> Cause {
    Cause {
        field: error.field,
        reason: error.reason.as_cause().to_owned(),
        message: error.message,
    }
}

/// Returns the kind and the operation of a request if the rules check them. As in Karmada's webhook registrations,
/// requests to subresources are not checked.
fn guarded(request: &AdmissionRequest<'_>) -> Option<(GuardedKind, admission::Operation)> {
    if request.subresource.is_some() {
        return None;
    }
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => return None,
    };
    Some((
        GuardedKind::find(request.group, request.resource)?,
        operation,
    ))
}
