//! Emptying what is being deleted as a whole: namespaces, and the objects of a CRD.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::queue::Work;
use super::{internal, resource_of};
use crate::error::Reason;
use crate::shared::{CRDS, Shared};
use crate::store::{Key, TableName};
use crate::verbs::delete::{self, CLEANUP, Options};
use crate::verbs::{Subresource, Write, modify};
use conditions::Remaining;

/// How long a deleted namespace keeps its content, so that clients that poll see it terminate.
const GRACE: Duration = Duration::from_secs(2);
/// The table of pods.
const PODS: &str = "pods";

/// Begins to empty a namespace when its grace is over.
pub(super) fn terminate(shared: &Arc<Shared>, name: &str) {
    let (shared, name) = (shared.clone(), Box::from(name));
    tokio::spawn(async move {
        tokio::select! {
            () = shared.stopping.cancelled() => {}
            () = tokio::time::sleep(GRACE) => shared.work.end_grace(name),
        }
    });
}

/// Deletes what is in a terminating namespace, pods first; finishes the namespace when nothing is left, and reports in its
/// conditions what is.
pub(super) async fn empty(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared
        .store
        .get("namespaces", &key)
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
    let Some(resource) = resource_of(shared, &TableName::from("namespaces")) else {
        return;
    };
    let mut call = internal(shared, &resource, "", name);
    call.subresource = Some(Subresource::Status);
    let reported = modify(&call, &key, Write::Plain, |old| {
        let mut new = old.clone();
        conditions::update(&mut new["status"], &remaining);
        Ok(new)
    });
    if let Err(error) = reported.await {
        shared.failed(Work::Namespace(name.into()));
        tracing::debug!(namespace = name, %error, "conditions of a namespace were not written");
    }
    if !remaining.resources.is_empty() {
        return;
    }
    call.subresource = Some(Subresource::Finalize);
    let result = modify(&call, &key, Write::Plain, |old| {
        let mut new = old.clone();
        if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != "kubernetes");
        }
        Ok(new)
    });
    if let Err(error) = result.await {
        shared.failed(Work::Namespace(name.into()));
        tracing::debug!(namespace = name, %error, "namespace was not finalized");
    }
}

/// Deletes the objects of some tables in a namespace; returns the first error of each table.
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
        let call = internal(shared, &resource, namespace, &object.key.name);
        let options = Options::background();
        match delete::remove(&call, &object.key, &options).await {
            Err(error) if error.reason != Reason::NotFound => {
                shared.failed(Work::Namespace(namespace.into()));
                tracing::debug!(namespace, object = %object.key.name, %error, "object was not deleted");
                failures
                    .entry(table.to_string())
                    .or_insert_with(|| error.to_string());
            }
            _ => {}
        }
    }
    failures
}

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
            // The core group has no name, and its dot stays.
            None => format!("{table}."),
        };
        *remaining.resources.entry(resource).or_default() += 1;
        for finalizer in &object.finalizers {
            *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    remaining
}

/// Deletes the objects of a terminating CRD; lets go of it when none is left.
pub(super) async fn definition(shared: &Arc<Shared>, name: &str) {
    let key = Key::new("", name);
    if !shared.store.get(CRDS, &key).is_some_and(|n| n.deleting) {
        return;
    }
    let table: TableName = name.into();
    let objects = shared.store.list(&table, None).items;
    if let Some(resource) = resource_of(shared, &table) {
        for object in objects.iter().filter(|o| !o.deleting) {
            let call = internal(shared, &resource, &object.key.namespace, &object.key.name);
            let options = Options::background();
            let removed = delete::remove(&call, &object.key, &options);
            if let Err(error) = removed.await {
                shared.failed(Work::Definition(name.into()));
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
    if let Err(error) = result.await {
        shared.failed(Work::Definition(name.into()));
        tracing::debug!(definition = name, %error, "definition was not let go");
    }
}
