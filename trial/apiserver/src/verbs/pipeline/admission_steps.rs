//! The steps of a write around its webhooks: defaults, hooks, system fields, the check of privilege escalation, and
//! validation. [`mutate`] sets defaults and runs mutating hooks and webhooks. [`admit`] sets system fields, checks
//! privilege escalation, validates, and runs validating hooks. [`admit_delete`] reviews deletions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::decoding::decode_mutated;
use super::webhook_dispatch::{self, Matched, Subject};
use super::{WriteKind, limit_range, priority, storage_class};
use crate::admission::{Admission, AdmissionRequest, Denial, Operation};
use crate::allocation::Reserved;
use crate::authorization::escalation;
use crate::builtins::{self, signing_request};
use crate::error::ApiError;
use crate::patch::managed;
use crate::resource::{Resource, Subresource};
use crate::schema::builtin::object_meta;
use crate::schema::{normalize, validate};
use crate::store::Key;
use crate::verbs::Call;
use crate::verbs::delete_options::DeleteOptions;
use crate::webhook_registry::admission_review;

/// Sets defaults, records the field manager, and runs the mutating hooks and webhooks.
pub(super) async fn mutate(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
) -> Result<Matched, ApiError> {
    let (resource, old) = (&*call.resource, subject.old);
    // An empty list resets the managed fields, and so does a list with an empty entry. `complete` would remove an empty
    // list, so the list gets an empty entry.
    if value["metadata"]["managedFields"] == json!([]) {
        value["metadata"]["managedFields"] = json!([{}]);
    }
    complete(resource, value);
    // The fields that the server adds after this step have no manager.
    if subject.write == WriteKind::Plain {
        managed::record(
            resource,
            call.subresource,
            &call.options.field_manager,
            old,
            value,
        );
    }
    apply_related_defaults(call, subject, value)?;
    let hooks = hooks(call);
    if !hooks.is_empty() {
        let request = request(call, operation(old), subject.key, old);
        for hook in &hooks {
            hook.mutate(&request, value)
                .map_err(|d| denied(call, &subject.key.name, d))?;
        }
        default(resource, value);
        normalize::prune(
            value,
            resource.schema(),
            &mut String::new(),
            &mut Vec::new(),
        );
    }
    drop(hooks);
    let settle = |value: &mut Value| {
        decode_mutated(resource, value)?;
        complete(resource, value);
        apply_related_defaults(call, subject, value)
    };
    webhook_dispatch::mutate(call, subject, value, &settle).await
}

/// Normalizes the values of an object to their types, and sets its defaults.
fn complete(resource: &Resource, value: &mut Value) {
    if resource.is_custom() {
        normalize::as_typed(&mut value["metadata"], &object_meta());
    } else {
        normalize::as_typed(value, resource.schema());
    }
    default(resource, value);
}

/// Sets the defaults that depend on other objects: LimitRanges and PriorityClasses.
fn apply_related_defaults(
    call: &Call,
    subject: &Subject<'_>,
    value: &mut Value,
) -> Result<(), ApiError> {
    if call.resource.is_custom() {
        return Ok(());
    }
    if subject.old.is_none() || call.subresource == Some(Subresource::Resize) {
        limit_range::set_defaults(call, subject.key, value);
    }
    if subject.old.is_none() {
        storage_class::set_default(call, value);
    }
    priority::assign(call, subject.key, value, subject.old)
}

/// Sets system fields, validates the object, and runs the validating hooks. Returns the reserved node ports and cluster
/// IP of a Service. The caller keeps this reservation until the object is stored.
pub(super) fn admit<'a>(
    call: &'a Call,
    key: &Key,
    value: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Reserved<'a>>, ApiError> {
    let resource = &*call.resource;
    let invalid = |causes| ApiError::invalid(&resource.group, &resource.kind, &key.name, causes);
    let mut reserved = Ok(None);
    if !resource.is_custom() {
        builtins::set_system_fields(resource, value, old, call.subresource);
        normalize::as_stored(value, resource.schema());
        if resource.is("", "services") {
            let allocation = &call.shared.allocation;
            reserved = allocation
                .reserve(key, value, old, call.options.dry_run)
                .map(Some);
            // For a new Service, validation errors are returned in preference to the error of a failed reservation.
            if old.is_some() && reserved.is_err() {
                return reserved;
            }
        }
        if old.is_none() && signing_request::is_signing_request(resource) {
            signing_request::record_requester(&call.identity, value);
        }
    }
    if resource.group == "rbac.authorization.k8s.io" {
        let grant = escalation::Grant {
            identity: &call.identity,
            resource: &resource.plural,
            namespace: &key.namespace,
            name: &key.name,
            old,
            new: value,
        };
        escalation::check(&call.shared.access, &grant)?;
    }
    let mut causes = builtins::metadata::validate(resource, value, old);
    if resource.is_custom() {
        causes.extend(validate::custom(value, old, resource.schema()));
    } else {
        causes.extend(builtins::validate(resource, value, old, call.subresource));
    }
    if !causes.is_empty() {
        return Err(invalid(causes));
    }
    let hooks = hooks(call);
    if !hooks.is_empty() {
        let request = request(call, operation(old), key, old);
        for hook in &hooks {
            hook.validate(&request, value)
                .map_err(|d| denied(call, &key.name, d))?;
        }
    }
    reserved
}

/// Returns the in-process hooks that handle the resource, in the order of their calls.
fn hooks(call: &Call) -> Vec<&Arc<dyn Admission>> {
    let resource = call.resource.group_resource();
    let all = call.shared.admission.iter();
    all.filter(|hook| hook.handles(&resource)).collect()
}

pub(super) fn operation(old: Option<&Value>) -> Operation {
    if old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    }
}

fn default(resource: &Resource, value: &mut Value) {
    if resource.is_custom() {
        normalize::drop_nulls(value, resource.schema());
        normalize::default(value, resource.schema());
    } else {
        builtins::default(resource, value);
    }
}

pub(super) fn denied(call: &Call, name: &str, denial: Denial) -> ApiError {
    match denial {
        Denial::Invalid { causes } => {
            ApiError::invalid(&call.resource.group, &call.resource.kind, name, causes)
        }
        Denial::Forbidden { message } => {
            ApiError::forbidden(&call.resource.group, &call.resource.plural, name, &message)
        }
        Denial::Webhook { name, status } => admission_review::denied(name, &status),
    }
}

pub(super) fn request<'a>(
    call: &'a Call,
    operation: Operation,
    key: &'a Key,
    old: Option<&'a Value>,
) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation,
        group: &call.resource.group,
        version: &call.resource.version,
        kind: &call.resource.kind,
        resource: &call.resource.plural,
        subresource: call.subresource.map(Subresource::name),
        namespace: (!key.namespace.is_empty()).then_some(&*key.namespace),
        name: &key.name,
        old_object: old,
        dry_run: call.options.dry_run,
    }
}

/// Runs the validating hooks and the webhooks for a delete.
pub(crate) async fn admit_delete(
    call: &Call,
    key: &Key,
    object: &Value,
    options: &DeleteOptions,
) -> Result<Matched, ApiError> {
    let hooks = hooks(call);
    if !hooks.is_empty() {
        let request = request(call, Operation::Delete, key, Some(object));
        for hook in &hooks {
            hook.validate(&request, object)
                .map_err(|d| denied(call, &key.name, d))?;
        }
    }
    drop(hooks);
    webhook_dispatch::review_delete(call, key, object, options).await
}
