//! Everything between decoding and storing: default, add what the system decides, ask the hooks, check.

use serde_json::{Value, json};

use super::Write;
use crate::admission::{AdmissionRequest, Denial, Operation};
use crate::allocation::Reserved;
use crate::authorization::escalation;
use crate::builtin::{self, signing_request};
use crate::error::ApiError;
use crate::limits;
use crate::patch::managed;
use crate::priority;
use crate::registry::{Resource, custom};
use crate::schema::builtin::object_meta;
use crate::schema::{shape, validate};
use crate::shared::CRDS;
use crate::store::Key;
use crate::verbs::{Call, Subresource};

/// Everything between decoding and storing. What is set aside for the object is to be held until it is stored.
pub(super) fn admit<'a>(
    call: &'a Call,
    key: &Key,
    value: &mut Value,
    old: Option<&Value>,
    write: Write,
) -> Result<Option<Reserved<'a>>, ApiError> {
    let resource = &*call.resource;
    let operation = if old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    };
    let invalid = |causes| ApiError::invalid(&resource.group, &resource.kind, &key.name, causes);
    // An empty list takes away what managers own, as one with nothing in it does.
    if value["metadata"]["managedFields"] == json!([]) {
        value["metadata"]["managedFields"] = json!([{}]);
    }
    if resource.is_custom() {
        shape::as_typed(&mut value["metadata"], &object_meta());
    } else {
        shape::as_typed(value, resource.schema());
    }
    default(resource, value);
    // What the system adds from here on belongs to nobody.
    if write == Write::Plain {
        managed::record(call, old, value);
    }
    let mut reserved = Ok(None);
    if !resource.is_custom() {
        if old.is_none() || call.subresource == Some(Subresource::Resize) {
            limits::fill_in(call, key, value);
        }
        priority::assign(call, key, value, old)?;
        builtin::prepare(resource, value, old, call.subresource);
        shape::as_stored(value, resource.schema());
        if resource.is("", "services") {
            let allocation = &call.shared.allocation;
            reserved = allocation
                .reserve(key, value, old, call.options.dry_run)
                .map(Some);
            // A new one is checked first.
            if old.is_some() && reserved.is_err() {
                return reserved;
            }
        }
        if old.is_none() && signing_request::is_one(resource) {
            signing_request::asked_by(&call.identity, value);
        }
    }
    let request = request(call, operation, key, old);
    let hooks: Vec<_> = call
        .shared
        .admission
        .iter()
        .filter(|h| h.handles(&resource.group_resource()))
        .collect();
    for hook in &hooks {
        hook.mutate(&request, value)
            .map_err(|d| denied(call, &key.name, d))?;
    }
    if !hooks.is_empty() {
        default(resource, value);
        shape::prune(
            value,
            resource.schema(),
            &mut String::new(),
            &mut Vec::new(),
        );
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
    let mut causes = builtin::metadata::validate(resource, value, old);
    if resource.is_custom() {
        causes.extend(validate::custom(value, old, resource.schema()));
    } else {
        causes.extend(builtin::validate(resource, value, old, call.subresource));
    }
    if !causes.is_empty() {
        return Err(invalid(causes));
    }
    for hook in &hooks {
        hook.validate(&request, value)
            .map_err(|d| denied(call, &key.name, d))?;
    }
    reserved
}

fn default(resource: &Resource, value: &mut Value) {
    if resource.is_custom() {
        shape::drop_nulls(value, resource.schema());
        shape::default(value, resource.schema());
    } else {
        builtin::default(resource, value);
        if &*resource.table == CRDS {
            custom::default(value);
        }
    }
}

fn denied(call: &Call, name: &str, denial: Denial) -> ApiError {
    match denial {
        Denial::Invalid { causes } => {
            ApiError::invalid(&call.resource.group, &call.resource.kind, name, causes)
        }
        Denial::Forbidden { message } => {
            ApiError::forbidden(&call.resource.group, &call.resource.plural, name, &message)
        }
    }
}

fn request<'a>(
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

/// Runs the validating hooks for a delete.
pub(crate) fn admit_delete(call: &Call, key: &Key, object: &Value) -> Result<(), ApiError> {
    let request = request(call, Operation::Delete, key, Some(object));
    for hook in call
        .shared
        .admission
        .iter()
        .filter(|h| h.handles(&call.resource.group_resource()))
    {
        hook.validate(&request, object)
            .map_err(|d| denied(call, &key.name, d))?;
    }
    Ok(())
}
