//! Emptying what is being deleted as a whole: namespaces, and the objects of a CRD.

use std::sync::Arc;

use serde_json::json;

use super::{internal, resource_of};
use crate::shared::{CRDS, Shared};
use crate::store::{Key, TableName};
use crate::verbs::delete::{self, CLEANUP, Options};
use crate::verbs::{Subresource, Write, modify};

/// Deletes what is in a terminating namespace; finishes the namespace when nothing is left.
pub(super) fn empty(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared
        .store
        .get("namespaces", &key)
        .is_some_and(|n| n.deleting)
    {
        return;
    }
    for (table, object) in shared.store.namespace_contents(name) {
        if object.deleting {
            continue;
        }
        let Some(resource) = resource_of(shared, &table) else {
            continue;
        };
        let call = internal(shared, &resource, name, &object.key.name);
        if let Err(error) = delete::remove(&call, &object.key, &Options::background()) {
            tracing::debug!(namespace = name, object = %object.key.name, %error, "object was not deleted");
        }
    }
    if !shared.store.namespace_contents(name).is_empty() {
        return;
    }
    let Some(resource) = resource_of(shared, &TableName::from("namespaces")) else {
        return;
    };
    let mut call = internal(shared, &resource, "", name);
    call.subresource = Some(Subresource::Finalize);
    let result = modify(&call, &key, Write::Plain, |old| {
        let mut new = old.clone();
        if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != "kubernetes");
        }
        Ok(new)
    });
    if let Err(error) = result {
        tracing::debug!(namespace = name, %error, "namespace was not finalized");
    }
}

/// Deletes the objects of a terminating CRD; lets go of it when none is left.
pub(super) fn definition(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared.store.get(CRDS, &key).is_some_and(|n| n.deleting) {
        return;
    }
    let table: TableName = name.into();
    let objects = shared.store.list(&table, None).items;
    if let Some(resource) = resource_of(shared, &table) {
        for object in objects.iter().filter(|o| !o.deleting) {
            let call = internal(shared, &resource, &object.key.namespace, &object.key.name);
            if let Err(error) = delete::remove(&call, &object.key, &Options::background()) {
                tracing::debug!(definition = name, object = %object.key.name, %error, "object was not deleted");
            }
        }
    }
    if !shared.store.list(&table, None).items.is_empty() {
        return;
    }
    let Some(resource) = resource_of(shared, &TableName::from(CRDS)) else {
        return;
    };
    let call = internal(shared, &resource, "", name);
    let result = modify(&call, &key, Write::Plain, |old| {
        let mut new = old.clone();
        let finalizers = new["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let left: Vec<_> = finalizers.into_iter().filter(|f| *f != CLEANUP).collect();
        new["metadata"]["finalizers"] = json!(left);
        Ok(new)
    });
    if let Err(error) = result {
        tracing::debug!(definition = name, %error, "definition was not let go");
    }
}
