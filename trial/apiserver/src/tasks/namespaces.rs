//! Deletion of the content of terminating namespaces and of terminating CustomResourceDefinitions.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::resource_of;
use crate::error::Reason;
use crate::resource::Subresource;
use crate::shared::Shared;
use crate::shared::well_known::CLEANUP_FINALIZER;
use crate::shared::work_queue::Work;
use crate::store::{Key, TableName};
use crate::table_names::{DEFINITIONS, NAMESPACES, PODS};
use crate::verbs::delete;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::{Call, WriteKind, modify};
use conditions::Remaining;

/// Time for which a terminating namespace keeps its content, so that a polling client can see the namespace terminate.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the grace period of a namespace.
pub(super) fn start_grace(shared: &Arc<Shared>, name: &str) {
    let (shared, name) = (shared.clone(), Box::from(name));
    tokio::spawn(async move {
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = tokio::time::sleep(GRACE) => shared.work.end_grace(name),
        }
    });
}

/// Deletes the content of a terminating namespace, pods first, and reports the remaining content in the conditions of
/// the namespace. Finalizes the namespace when it is empty.
pub(super) async fn empty(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared
        .store
        .get(NAMESPACES, &key)
        .is_some_and(|n| n.deleting)
    {
        return;
    }
    let is_pod = |table: &TableName| &**table == PODS;
    let mut failures = delete_all(shared, name, is_pod).await;
    let contents = shared.store.namespace_contents(name);
    if !contents.iter().any(|(table, _)| is_pod(table)) {
        failures.extend(delete_all(shared, name, |_| true).await);
    }
    let remaining = remaining(shared, name, failures);
    let Some(resource) = resource_of(shared, NAMESPACES) else {
        return;
    };
    let mut call = Call::internal(shared, &resource, "", name);
    call.subresource = Some(Subresource::Status);
    let reported = modify(&call, &key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        conditions::update(&mut new["status"], &remaining);
        Ok(new)
    });
    if let Err(error) = reported.await {
        shared.retry_later(Work::EmptyNamespace(name.into()));
        tracing::debug!(namespace = name, %error, "cannot write the conditions of a namespace");
    }
    if !remaining.resources.is_empty() {
        return;
    }
    call.subresource = Some(Subresource::Finalize);
    let result = modify(&call, &key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != "kubernetes");
        }
        Ok(new)
    });
    if let Err(error) = result.await {
        shared.retry_later(Work::EmptyNamespace(name.into()));
        tracing::debug!(namespace = name, %error, "cannot finalize a namespace");
    }
}

/// Deletes the objects of the wanted tables in a namespace. Returns the first error of each table.
async fn delete_all(
    shared: &Arc<Shared>,
    namespace: &str,
    wanted: impl Fn(&TableName) -> bool,
) -> BTreeMap<String, String> {
    let mut failures = BTreeMap::new();
    for (table, object) in shared.store.namespace_contents(namespace) {
        if object.deleting || !wanted(&table) {
            continue;
        }
        let Some(resource) = resource_of(shared, &table) else {
            continue;
        };
        let call = Call::internal(shared, &resource, namespace, &object.key.name);
        let options = DeleteOptions::background();
        match delete::remove(&call, &object.key, &options).await {
            Err(error) if error.reason != Reason::NotFound => {
                shared.retry_later(Work::EmptyNamespace(namespace.into()));
                tracing::debug!(namespace, object = %object.key.name, %error, "cannot delete an object");
                failures
                    .entry(table.to_string())
                    .or_insert_with(|| error.to_string());
            }
            _ => {}
        }
    }
    failures
}

/// Returns the remaining content of a namespace after a round of deletion.
fn remaining(
    shared: &Arc<Shared>,
    namespace: &str,
    failures: BTreeMap<String, String>,
) -> Remaining {
    let mut remaining = Remaining {
        failures,
        ..Remaining::default()
    };
    for (table, object) in shared.store.namespace_contents(namespace) {
        let resource = match table.split_once('.') {
            Some(_) => table.to_string(),
            // The name of a core resource also has a dot, before the empty group.
            None => format!("{table}."),
        };
        *remaining.resources.entry(resource).or_default() += 1;
        for finalizer in &object.finalizers {
            *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    remaining
}

/// Deletes the objects of a terminating CustomResourceDefinition. Finalizes the definition when no object is left.
pub(super) async fn definition(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared
        .store
        .get(DEFINITIONS, &key)
        .is_some_and(|n| n.deleting)
    {
        return;
    }
    let table: TableName = name.into();
    let objects = shared.store.list(&table, None).items;
    if let Some(resource) = resource_of(shared, &table) {
        for object in objects.iter().filter(|o| !o.deleting) {
            let call = Call::internal(shared, &resource, &object.key.namespace, &object.key.name);
            let options = DeleteOptions::background();
            let removed = delete::remove(&call, &object.key, &options);
            if let Err(error) = removed.await {
                shared.retry_later(Work::EmptyDefinition(name.into()));
                tracing::debug!(definition = name, object = %object.key.name, %error, "cannot delete an object");
            }
        }
    }
    if !shared.store.list(&table, None).items.is_empty() {
        return;
    }
    let Some(resource) = resource_of(shared, DEFINITIONS) else {
        return;
    };
    let call = Call::internal(shared, &resource, "", name);
    let result = modify(&call, &key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        let finalizers = new["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let left: Vec<_> = finalizers
            .into_iter()
            .filter(|f| *f != CLEANUP_FINALIZER)
            .collect();
        new["metadata"]["finalizers"] = json!(left);
        Ok(new)
    });
    if let Err(error) = result.await {
        shared.retry_later(Work::EmptyDefinition(name.into()));
        tracing::debug!(definition = name, %error, "cannot finalize a definition");
    }
}
