//! The creation of objects: names, system metadata, namespace checks, limits and quotas.

use std::sync::Arc;

use serde_json::{Value, json};

use super::accounts;
use super::admission_steps::{admit, mutate};
use super::webhook_dispatch::{Matched, Subject};
use super::{
    WriteKind, check_size, commit_error, edit_meta, limit_range, namespace_mismatch, quota,
    webhook_dispatch,
};
use crate::allocation::Reserved;
use crate::authorization;
use crate::authorization::attributes::Attributes;
use crate::builtins;
use crate::clock;
use crate::error::{ApiError, Cause, Reason};
use crate::registry::custom_resource_definition;
use crate::store::{CommitError, Key, Stored};
use crate::table_names::{DEFINITIONS, NAMESPACES};
use crate::verbs::version_conversion::to_stored;
use crate::verbs::{Call, text};

/// Runs a new object through admission, and stores the object.
pub(crate) async fn insert(
    call: &Call,
    mut value: Value,
    write: WriteKind,
) -> Result<Arc<Stored>, ApiError> {
    let resource = &*call.resource;
    let namespace = namespace_of(call, &value)?;
    // The status of a new node is kept, because kubelets register their nodes with a status.
    let has_status = resource.status && !resource.is("", "nodes");
    edit_meta(&mut value, |meta_map| {
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
            "uid",
            "creationTimestamp",
        ] {
            meta_map.remove(owned);
        }
        if write == WriteKind::Plain {
            meta_map.remove("managedFields");
        }
        if resource.generation {
            meta_map.insert("generation".into(), json!(1));
        } else if resource.is_custom() {
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
    let subject = Subject {
        key: &key,
        name: &name,
        old: None,
        write,
    };
    let mutated = mutate(call, &subject, &mut value).await?;
    if namespace_of(call, &value)? != namespace {
        return Err(namespace_mismatch());
    }
    identify(call, &mut value);
    let key = Key::new(&namespace, text(&value, &["metadata", "name"]));
    if let Some(wanted) = call.name.as_deref().filter(|wanted| **wanted != *key.name) {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({wanted})",
            key.name
        )));
    }
    let reserved = admit(call, &key, &mut value, None)?;
    if call.name.is_some() {
        check_create_permission(call, &key)?;
    }
    if &*resource.table == DEFINITIONS {
        custom_resource_definition::set_status(&mut value, &call.shared.registry.snapshot());
    }
    limit_range::check(call, &key, &value)?;
    let subject = Subject {
        key: &key,
        ..subject
    };
    let validated = webhook_dispatch::validate(call, &subject, &value).await?;
    if [mutated, validated].contains(&Matched::Yes) {
        check_namespace(call, &key, &key.name)?;
        check_definition(call)?;
    }
    store(call, key, value, reserved)
}

/// Sets the uid and the creation time of a new object, and generates a missing name. Mutating webhooks run earlier, so
/// they do not receive these values.
fn identify(call: &Call, value: &mut Value) {
    let [name, base] =
        ["name", "generateName"].map(|field| text(value, &["metadata", field]).to_owned());
    edit_meta(value, |meta_map| {
        if name.is_empty() && !base.is_empty() {
            let kept: String = base.chars().take(58).collect();
            meta_map.insert("name".into(), json!(format!("{kept}{}", suffix())));
        } else if name.is_empty() && call.resource.is("", "limitranges") {
            let name = uuid::Uuid::new_v4().to_string();
            meta_map.insert("name".into(), json!(name));
        }
        meta_map.insert("uid".into(), json!(uuid::Uuid::new_v4().to_string()));
        meta_map.insert("creationTimestamp".into(), json!(clock::now()));
    });
    if name.is_empty() && call.resource.is("", "namespaces") {
        builtins::namespace(value);
    }
}

/// Stores a valid new object if the quotas allow the object.
fn store(
    call: &Call,
    key: Key,
    value: Value,
    reserved: Option<Reserved<'_>>,
) -> Result<Arc<Stored>, ApiError> {
    let resource = &*call.resource;
    let quota_guard = quota::global_lock(call, &key);
    if quota_guard.is_some() {
        quota::check(call, &key, &value, None)?;
    }
    let mut stored_value = to_stored(value, resource);
    check_size(&stored_value, None)?;
    let store = &call.shared.store;
    if call.options.dry_run {
        if store.get(&resource.table, &key).is_some() {
            return Err(commit_error(call, &key, CommitError::Exists));
        }
        drop(accounts::charge(call, &key, None, &stored_value)?);
        let object = Stored::new(key, store.version(), &stored_value)
            .map_err(|e| ApiError::internal(e.to_string()))?;
        return Ok(Arc::new(object));
    }
    let mut charges = accounts::charge(call, &key, None, &stored_value)?;
    let object = match store.create(&resource.table, key.clone(), &mut stored_value) {
        Ok(object) => object,
        Err(error) => {
            charges.iter_mut().for_each(accounts::Charges::undo);
            return Err(commit_error(call, &key, error));
        }
    };
    drop((charges, quota_guard, reserved));
    call.shared.after_write(&resource.table);
    Ok(object)
}

/// Returns the namespace of the new object. Fails if the body and the URL name different namespaces.
fn namespace_of(call: &Call, value: &Value) -> Result<String, ApiError> {
    let in_body = text(value, &["metadata", "namespace"]);
    match (call.resource.namespaced(), &call.namespace) {
        (false, _) => Ok(String::new()),
        (true, Some(namespace)) if in_body.is_empty() || in_body == namespace => {
            Ok(namespace.clone())
        }
        (true, Some(_)) => Err(namespace_mismatch()),
        (true, None) => Err(ApiError::method_not_allowed()),
    }
}

/// Checks that the client may create the object. A PUT or an apply that creates an object needs this permission in
/// addition to `update` or `patch`.
fn check_create_permission(call: &Call, key: &Key) -> Result<(), ApiError> {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    let attributes = Attributes::on("create", group, plural, &key.namespace, &key.name);
    authorization::check(&call.shared.access, &call.identity, &attributes)
}

/// Refuses new objects in missing or terminating namespaces.
fn check_namespace(call: &Call, key: &Key, kind_name: &str) -> Result<(), ApiError> {
    if !call.resource.namespaced() {
        return Ok(());
    }
    let namespace = &*key.namespace;
    match call.shared.store.get(NAMESPACES, &Key::new("", namespace)) {
        None => Err(ApiError::not_found("", "namespaces", namespace)),
        Some(found) if found.deleting => {
            let detail = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut error = ApiError::forbidden(
                &call.resource.group,
                &call.resource.plural,
                kind_name,
                &detail,
            );
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

/// Refuses new objects of a terminating CustomResourceDefinition.
fn check_definition(call: &Call) -> Result<(), ApiError> {
    let resource = &call.resource;
    let terminating = resource.is_custom()
        && call
            .shared
            .store
            .get(DEFINITIONS, &Key::new("", &resource.table))
            .is_none_or(|crd| crd.deleting);
    if terminating {
        return Err(ApiError::new(
            Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    Ok(())
}

/// Returns a random suffix for `generateName`. The suffix uses the alphabet of Kubernetes.
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
