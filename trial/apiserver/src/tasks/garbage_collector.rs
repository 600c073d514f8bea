//! Garbage collection by owner references, with background, foreground and orphaning deletion.

use std::sync::Arc;

use serde_json::Value;

use super::resource_of;
use crate::shared::Shared;
use crate::shared::well_known::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::shared::work_queue::Work;
use crate::store::{ObjectLocation, Stored};
use crate::verbs::delete;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::{Call, WriteKind, modify};

fn load(shared: &Shared, location: &ObjectLocation) -> Option<Arc<Stored>> {
    shared.store.get(&location.table, &location.key)
}

/// Checks the dependents of a deleted object.
pub(super) async fn collect_dependents(shared: &Arc<Shared>, uid: &str) {
    for dependent in shared.store.dependents(uid) {
        check_owners(shared, &dependent).await;
    }
}

/// Deletes an object if none of its owners exists. If some owners exist, removes its references to the missing owners.
pub(super) async fn check_owners(shared: &Arc<Shared>, location: &ObjectLocation) {
    let Some(object) = load(shared, location) else {
        return;
    };
    if object.owners.is_empty() {
        return;
    }
    let missing = |uid: &str| !shared.store.uid_exists(uid);
    let (missing_owners, existing): (Vec<_>, Vec<_>) =
        object.owners.iter().partition(|o| missing(&o.uid));
    if missing_owners.is_empty() {
        // An owner in foreground deletion may wait for this dependent.
        for owner in existing {
            if let Some(owner_location) = shared.store.locate(&owner.uid)
                && load(shared, &owner_location).is_some_and(|o| {
                    o.deleting && o.finalizers.iter().any(|f| f == FOREGROUND_FINALIZER)
                })
            {
                finalize(shared, &owner_location).await;
            }
        }
        return;
    }
    if existing.is_empty() {
        remove(shared, location, &object).await;
    } else {
        edit(shared, location, |value| {
            if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|o| !missing(o["uid"].as_str().unwrap_or_default()));
            }
        })
        .await;
    }
}

async fn remove(shared: &Arc<Shared>, location: &ObjectLocation, object: &Stored) {
    let Some(resource) = resource_of(shared, &location.table) else {
        return;
    };
    let call = Call::internal(shared, &resource, &object.key.namespace, &object.key.name);
    let options = DeleteOptions::background_of(object);
    if let Err(error) = delete::remove(&call, &location.key, &options).await {
        tracing::debug!(table = %location.table, name = %location.key.name, %error, "cannot delete an object without owners");
        retry(shared, location, object);
    }
}

/// Schedules another check of the owners of an object, for the next change of the object or the next retry of failed
/// work. If the stored object is already newer than `object`, queues the check at once.
fn retry(shared: &Arc<Shared>, location: &ObjectLocation, object: &Stored) {
    shared.work.retry_on_change(location.clone());
    shared.retry_later(Work::CheckOwners(location.clone()));
    if load(shared, location).is_some_and(|now| now.version != object.version) {
        shared.work.push(Work::CheckOwners(location.clone()));
    }
}

async fn edit(shared: &Arc<Shared>, location: &ObjectLocation, change: impl Fn(&mut Value)) {
    let Some(resource) = resource_of(shared, &location.table) else {
        return;
    };
    let call = Call::internal(
        shared,
        &resource,
        &location.key.namespace,
        &location.key.name,
    );
    let result = modify(&call, &location.key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    });
    if let Err(error) = result.await {
        shared.retry_later(Work::CheckOwners(location.clone()));
        shared.retry_later(Work::Finalize(location.clone()));
        tracing::debug!(table = %location.table, name = %location.key.name, %error, "cannot update an object for garbage collection");
    }
}

async fn drop_finalizer(shared: &Arc<Shared>, location: &ObjectLocation, name: &str) {
    edit(shared, location, |value| {
        if let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != name);
        }
    })
    .await;
}

/// Continues the foreground deletion of the object with this uid.
pub(super) async fn continue_deletion(shared: &Arc<Shared>, uid: &str) {
    if let Some(location) = shared.store.locate(uid)
        && load(shared, &location).is_some_and(|o| o.deleting)
    {
        finalize(shared, &location).await;
    }
}

/// Processes the finalizers of garbage collection on a terminating object.
pub(super) async fn finalize(shared: &Arc<Shared>, location: &ObjectLocation) {
    let Some(object) = load(shared, location) else {
        return;
    };
    if !object.deleting {
        return;
    }
    let has = |name: &str| object.finalizers.iter().any(|f| f == name);
    if has(ORPHAN_FINALIZER) {
        for dependent in shared.store.dependents(&object.uid) {
            edit(shared, &dependent, |value| {
                if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|o| o["uid"] != *object.uid);
                }
            })
            .await;
        }
        drop_finalizer(shared, location, ORPHAN_FINALIZER).await;
    }
    if has(FOREGROUND_FINALIZER) {
        let mut blocked = false;
        for dependent in shared.store.dependents(&object.uid) {
            let Some(found) = load(shared, &dependent) else {
                continue;
            };
            let blocks = found
                .owners
                .iter()
                .any(|o| *o.uid == *object.uid && o.blocks);
            let others_alive = found
                .owners
                .iter()
                .any(|o| *o.uid != *object.uid && shared.store.uid_exists(&o.uid));
            if others_alive {
                edit(shared, &dependent, |value| {
                    if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                        owners.retain(|o| o["uid"] != *object.uid);
                    }
                })
                .await;
                continue;
            }
            if !found.deleting
                && let Some(resource) = resource_of(shared, &dependent.table)
            {
                let call = Call::internal(shared, &resource, &found.key.namespace, &found.key.name);
                let options =
                    DeleteOptions::foreground_if(!shared.store.dependents(&found.uid).is_empty());
                if let Err(error) = delete::remove(&call, &dependent.key, &options).await {
                    tracing::debug!(name = %dependent.key.name, %error, "cannot delete a dependent");
                    retry(shared, &dependent, &found);
                }
            }
            blocked |= blocks && load(shared, &dependent).is_some();
        }
        if !blocked {
            drop_finalizer(shared, location, FOREGROUND_FINALIZER).await;
        }
    }
}
