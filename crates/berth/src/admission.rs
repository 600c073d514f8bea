//! Karmada's admission rules as a hook of the embedded server: the server knows a trait, the rules know
//! JSON, and this is the thread between them.

use berth_api::admission::{self, FieldError, GuardedKind, SystemEnvironment, check_deletion};
use berth_apiserver::{Admission, AdmissionRequest, Cause, Denial, GroupResource, Operation};
use serde_json::Value;

/// What Karmada's webhooks do, in process.
#[derive(Clone, Copy, Debug, Default)]
pub struct KarmadaAdmission;

impl Admission for KarmadaAdmission {
    /// Every resource: any object may carry the label against deletion.
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
        admission::validate(kind, operation, request.old_object, object).map_err(|errors| {
            Denial::Invalid {
                causes: errors.into_iter().map(cause).collect(),
            }
        })
    }
}

fn cause(error: FieldError) -> Cause {
    Cause {
        field: error.field,
        reason: error.reason.as_cause().to_owned(),
        message: error.message,
    }
}

/// The kind and operation, where the rules have something to say: not for subresources, as in the
/// registrations of the webhooks.
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
