//! The way every write takes: fill in what the system owns, default, admit, default and prune again, validate,
//! admit again, store. Synchronous: nothing here waits.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::view::{to_stored, to_view};
use super::{Call, Subresource, text};
use crate::admission::{AdmissionRequest, Denial, Operation};
use crate::authorization::escalation;
use crate::builtin::{self, signing_request};
use crate::clock;
use crate::error::{ApiError, Cause};
use crate::http::query::FieldValidation;
use crate::limits;
use crate::node_ports;
use crate::patch::managed;
use crate::priority;
use crate::quota;
use crate::registry::{Resource, Source, custom};
use crate::schema::builtin::object_meta;
use crate::schema::{decode, shape, validate};
use crate::shared::CRDS;
use crate::store::{CommitError, Key, Stored};

/// Which write it is, for what differs between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Create, replace and the client-side patches.
    Plain,
    /// Server-side apply, which keeps track of ownership itself.
    Apply,
}

/// A finished write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Stored>,
}

/// Checks type, kind and unknown fields of an object a client sent. Returns warnings.
pub(crate) fn decode(
    call: &Call,
    value: &mut Value,
    mut strange: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    let resource = &call.resource;
    if !value.is_object() {
        return Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: expected an object",
        ));
    }
    let (api_version, kind) = (
        text(value, &["apiVersion"]).to_owned(),
        text(value, &["kind"]).to_owned(),
    );
    let expected = resource.api_version();
    if (kind.is_empty() || api_version.is_empty()) && resource.is_custom() {
        return Err(ApiError::bad_request(
            "Object 'Kind' or 'apiVersion' is missing",
        ));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: the kind does not match",
            resource.version, resource.kind
        )));
    }
    value["apiVersion"] = json!(expected);
    value["kind"] = json!(resource.kind);
    for duplicate in &mut strange {
        *duplicate = format!("duplicate field \"{duplicate}\"");
    }
    // Before anything of it is filled in; the rest is looked at when that is done.
    decodes(resource, &json!({"metadata": value["metadata"]}))?;
    let mut unknown = Vec::new();
    shape::prune(value, resource.schema(), &mut String::new(), &mut unknown);
    strange.splice(
        0..0,
        unknown
            .into_iter()
            .map(|u| format!("unknown field \"{u}\"")),
    );
    match call.options.field_validation {
        FieldValidation::Strict if !strange.is_empty() => Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            strange.join(", ")
        ))),
        FieldValidation::Warn => Ok(strange),
        _ => Ok(Vec::new()),
    }
}

/// Refuses what Go could not decode into the type of a built-in kind.
fn decodes(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    if let Source::Builtin { definition, .. } = &resource.source
        && let Some(problem) = decode::problem(definition, value)
    {
        return Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {problem}",
            resource.kind, resource.version, resource.kind
        )));
    }
    Ok(())
}

/// Built-in kinds are decoded into types: a wrong type is a bad request, not an invalid object.
pub(crate) fn check_types(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    decodes(resource, value)?;
    shape::as_typed(value, resource.schema());
    Ok(())
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

/// Everything between decoding and storing.
fn admit(
    call: &Call,
    key: &Key,
    value: &mut Value,
    old: Option<&Value>,
    write: Write,
) -> Result<(), ApiError> {
    let resource = &*call.resource;
    let operation = if old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    };
    let invalid = |causes| ApiError::invalid(&resource.group, &resource.kind, &key.name, causes);
    if resource.is_custom() {
        shape::as_typed(&mut value["metadata"], &object_meta());
    } else {
        check_types(resource, value)?;
    }
    default(resource, value);
    // What the system adds from here on belongs to nobody.
    if write == Write::Plain {
        managed::record(call, old, value);
    }
    let mut taken = Vec::new();
    if !resource.is_custom() {
        if old.is_none() {
            limits::fill_in(call, key, value);
        }
        priority::assign(call, key, value, old)?;
        taken = node_ports::reserve(call, key, value, old);
        builtin::prepare(resource, value, old.is_none());
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
        causes.append(&mut taken);
    }
    if !causes.is_empty() {
        return Err(invalid(causes));
    }
    for hook in &hooks {
        hook.validate(&request, value)
            .map_err(|d| denied(call, &key.name, d))?;
    }
    Ok(())
}

fn commit_error(call: &Call, key: &Key, error: CommitError) -> ApiError {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    match error {
        CommitError::Exists => ApiError::already_exists(group, plural, &key.name),
        CommitError::Gone => ApiError::not_found(group, plural, &key.name),
        CommitError::Stale => ApiError::stale(group, plural, &key.name),
        CommitError::Storage(e) => ApiError::internal(e.to_string()),
        CommitError::Encode(e) => ApiError::internal(e.to_string()),
    }
}

/// Changes `metadata`, which is made an object if it is none.
fn edit_meta(value: &mut Value, edit: impl FnOnce(&mut Map<String, Value>)) {
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    if let Some(map) = value["metadata"].as_object_mut() {
        edit(map);
    }
}

/// Refuses new objects in namespaces that are missing or going away.
fn check_namespace(call: &Call, key: &Key, kind_name: &str) -> Result<(), ApiError> {
    if !call.resource.namespaced() {
        return Ok(());
    }
    let namespace = &*key.namespace;
    match call
        .shared
        .store
        .get("namespaces", &Key::new("", namespace))
    {
        None => Err(ApiError::not_found("", "namespaces", namespace)),
        Some(found) if found.deleting => {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut error =
                ApiError::forbidden(&call.resource.group, &call.resource.plural, kind_name, &why);
            error.causes = vec![Cause {
                field: "metadata.namespace".into(),
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
            }];
            Err(error)
        }
        Some(_) => Ok(()),
    }
}

/// Refuses new objects of a CRD that is going away.
fn check_definition(call: &Call) -> Result<(), ApiError> {
    let resource = &call.resource;
    let terminating = resource.is_custom()
        && call
            .shared
            .store
            .get(CRDS, &Key::new("", &resource.table))
            .is_none_or(|crd| crd.deleting);
    if terminating {
        return Err(ApiError::new(
            crate::error::Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    Ok(())
}

/// Random suffix of generated names, from the alphabet Kubernetes uses.
fn suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4();
    random
        .as_bytes()
        .iter()
        .take(5)
        .map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()]))
        .collect()
}

/// Stores a new object.
pub(crate) fn insert(call: &Call, mut value: Value, write: Write) -> Result<Written, ApiError> {
    let resource = &*call.resource;
    let namespace = namespace_of(call, &value)?;
    // Kubelets register their nodes with a status.
    let has_status = resource.status && !resource.is("", "nodes");
    let generated = text(&value, &["metadata", "name"]).is_empty();
    let base = text(&value, &["metadata", "generateName"]).to_owned();
    edit_meta(&mut value, |meta_map| {
        if generated && !base.is_empty() {
            let kept: String = base.chars().take(58).collect();
            meta_map.insert("name".into(), json!(format!("{kept}{}", suffix())));
        }
        if resource.namespaced() {
            meta_map.insert("namespace".into(), json!(namespace));
        } else {
            meta_map.remove("namespace");
        }
        for owned in [
            "resourceVersion",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            meta_map.remove(owned);
        }
        if write == Write::Plain {
            meta_map.remove("managedFields");
        }
        meta_map.insert("uid".into(), json!(uuid::Uuid::new_v4().to_string()));
        meta_map.insert("creationTimestamp".into(), json!(clock::now()));
        if resource.generation {
            meta_map.insert("generation".into(), json!(1));
        } else {
            meta_map.remove("generation");
        }
    });
    if has_status && let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    let name = text(&value, &["metadata", "name"]).to_owned();
    let key = Key::new(&namespace, &name);
    check_namespace(call, &key, &name)?;
    check_definition(call)?;
    admit(call, &key, &mut value, None, write)?;
    if &*resource.table == CRDS {
        custom::set_status(&mut value, &call.shared.registry.snapshot());
    }
    limits::check(call, &key, &value)?;
    let turn = quota::turn(call, &key);
    if turn.is_some() {
        quota::check(call, &key, &value)?;
    }
    let mut stored_value = to_stored(value, resource);
    let store = &call.shared.store;
    if call.options.dry_run {
        if store.get(&resource.table, &key).is_some() {
            return Err(commit_error(call, &key, CommitError::Exists));
        }
        let object = Stored::new(key, store.version(), &stored_value)
            .map_err(|e| ApiError::internal(e.to_string()))?;
        return Ok(Written {
            object: Arc::new(object),
        });
    }
    let object = store
        .create(&resource.table, key.clone(), &mut stored_value)
        .map_err(|e| commit_error(call, &key, e))?;
    drop(turn);
    call.shared.written(&resource.table);
    Ok(Written { object })
}

fn namespace_of(call: &Call, value: &Value) -> Result<String, ApiError> {
    let in_body = text(value, &["metadata", "namespace"]);
    match (call.resource.namespaced(), &call.namespace) {
        (false, _) => Ok(String::new()),
        (true, Some(namespace)) if in_body.is_empty() || in_body == namespace => {
            Ok(namespace.clone())
        }
        (true, Some(_)) => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        (true, None) => Err(super::super::http::method_not_allowed()),
    }
}

/// How often a write without a version of its own is retried when others write the same object.
const MAX_ATTEMPTS: usize = 64;

/// Reads, changes and writes an object; starts over when somebody else was faster, unless the new object
/// carries a version.
pub(crate) fn modify(
    call: &Call,
    key: &Key,
    write: Write,
    mut change: impl FnMut(&Value) -> Result<Value, ApiError>,
) -> Result<Written, ApiError> {
    let resource = &*call.resource;
    for _ in 0..MAX_ATTEMPTS {
        let stored = call
            .shared
            .store
            .get(&resource.table, key)
            .ok_or_else(|| call.not_found())?;
        let old = to_view(stored.value(), resource);
        let mut new = change(&old)?;
        check_preconditions(call, key, &stored, &old, &new)?;
        carry_over(call, &old, &mut new);
        admit(call, key, &mut new, Some(&old), write)?;
        bump_generation(resource, &old, &mut new);
        if &*resource.table == CRDS && call.subresource.is_none() {
            custom::set_status(&mut new, &call.shared.registry.snapshot());
        }
        if same_but_times(&old, &new) {
            return Ok(Written { object: stored });
        }
        let mut new = to_stored(new, resource);
        if call.options.dry_run {
            let object = Stored::new(key.clone(), stored.version, &new)
                .map_err(|e| ApiError::internal(e.to_string()))?;
            return Ok(Written {
                object: Arc::new(object),
            });
        }
        let finished = stored.deleting && is_finished(resource, &new);
        let store = &call.shared.store;
        let result = if finished {
            store.remove(&resource.table, key, stored.version, &mut new)
        } else {
            store.update(&resource.table, key, stored.version, &mut new)
        };
        match result {
            Ok(object) => {
                call.shared.written(&resource.table);
                return Ok(Written { object });
            }
            Err(CommitError::Stale) => {}
            Err(error) => return Err(commit_error(call, key, error)),
        }
    }
    Err(commit_error(call, key, CommitError::Stale))
}

/// True if nothing holds a deleted object any more.
pub(crate) fn is_finished(resource: &Resource, value: &Value) -> bool {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    empty(&value["metadata"]["finalizers"])
        && (!resource.is("", "namespaces") || empty(&value["spec"]["finalizers"]))
}

fn check_preconditions(
    call: &Call,
    key: &Key,
    stored: &Stored,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    let version = text(new, &["metadata", "resourceVersion"]);
    if !version.is_empty() && version != stored.version.to_string() {
        return Err(ApiError::stale(group, plural, &key.name));
    }
    let (uid, has) = (
        text(new, &["metadata", "uid"]),
        text(old, &["metadata", "uid"]),
    );
    if !uid.is_empty() && uid != has {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {has}");
        return Err(ApiError::conflict(group, plural, &key.name, &why));
    }
    let name = text(new, &["metadata", "name"]);
    if !name.is_empty() && name != &*key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    Ok(())
}

/// What a write may not change stays as it was.
fn carry_over(call: &Call, old: &Value, new: &mut Value) {
    let resource = &call.resource;
    new["apiVersion"] = json!(resource.api_version());
    new["kind"] = json!(resource.kind);
    match call.subresource {
        Some(Subresource::Status) => {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            let mut merged = old.clone();
            if let Some(object) = merged.as_object_mut() {
                match status {
                    Some(status) => drop(object.insert("status".into(), status)),
                    None => drop(object.remove("status")),
                }
            }
            if let Some(managed) = managed {
                merged["metadata"]["managedFields"] = managed;
            }
            *new = merged;
        }
        Some(Subresource::Finalize) => {
            let finalizers = new["spec"]["finalizers"].take();
            let mut merged = old.clone();
            merged["spec"]["finalizers"] = finalizers;
            *new = merged;
        }
        Some(Subresource::Approval) => {
            let conditions = new["status"]["conditions"].take();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            new["status"]["conditions"] = conditions;
            if let Some(managed) = managed {
                new["metadata"]["managedFields"] = managed;
            }
        }
        Some(Subresource::Scale) | None => {
            if signing_request::is_one(resource) {
                new["spec"] = old["spec"].clone();
            }
            if resource.status
                && let Some(object) = new.as_object_mut()
            {
                match old.get("status") {
                    Some(status) => drop(object.insert("status".into(), status.clone())),
                    None => drop(object.remove("status")),
                }
            }
            if resource.is("", "namespaces") {
                new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            }
        }
    }
    edit_meta(new, |map| {
        for owned in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "generateName",
        ] {
            match old["metadata"].get(owned) {
                Some(value) => drop(map.insert(owned.to_owned(), value.clone())),
                None => drop(map.remove(owned)),
            }
        }
        map.remove("selfLink");
    });
}

fn bump_generation(resource: &Resource, old: &Value, new: &mut Value) {
    if !resource.generation {
        return;
    }
    let annotated = resource.is("apps", "deployments")
        && old["metadata"]["annotations"] != new["metadata"]["annotations"];
    let changed = if resource.is_custom() {
        let mut keys = old
            .as_object()
            .into_iter()
            .chain(new.as_object())
            .flat_map(Map::keys);
        keys.any(|k| {
            k != "metadata"
                && !(k == "status" && resource.status)
                && old[k.as_str()] != new[k.as_str()]
        })
    } else {
        // Annotations of deployments count, as they are copied to what controllers make of them.
        old["spec"] != new["spec"] || annotated
    };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        new["metadata"]["generation"] = json!(generation);
    }
}

/// True if two versions differ at most in the times of managed fields: such a write does not happen.
fn same_but_times(old: &Value, new: &Value) -> bool {
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    if a.len() != b.len()
        || a.iter()
            .any(|(k, v)| k != "metadata" && b.get(k) != Some(v))
    {
        return false;
    }
    let (Some(a), Some(b)) = (old["metadata"].as_object(), new["metadata"].as_object()) else {
        return false;
    };
    let relevant = |m: &Map<String, Value>| m.len() - usize::from(m.contains_key("managedFields"));
    relevant(a) == relevant(b)
        && a.iter()
            .all(|(k, v)| k == "managedFields" || b.get(k) == Some(v))
        && managed::same_but_times(
            &old["metadata"]["managedFields"],
            &new["metadata"]["managedFields"],
        )
}
