//! Garbage collection by owner references: background, foreground and orphan, as in Kubernetes.

use std::sync::Arc;

use serde_json::Value;

use super::queue::Work;
use super::{internal, resource_of};
use crate::shared::Shared;
use crate::store::{Dependent, Stored};
use crate::verbs::delete::{self, FOREGROUND, ORPHAN, Options};
use crate::verbs::{Write, modify};

fn load(shared: &Shared, place: &Dependent) -> Option<Arc<Stored>> {
    shared.store.get(&place.table, &place.key)
}

/// Looks at everything a vanished object owned.
pub(super) async fn owner_gone(shared: &Arc<Shared>, uid: &str) {
    for place in shared.store.dependents(uid) {
        check(shared, &place).await;
    }
}

/// Deletes an object none of whose owners exist; drops the owners that do not while others do.
pub(super) async fn check(shared: &Arc<Shared>, place: &Dependent) {
    let Some(object) = load(shared, place) else {
        return;
    };
    if object.owners.is_empty() {
        return;
    }
    let gone = |uid: &str| !shared.store.uid_exists(uid);
    let (dead, alive): (Vec<_>, Vec<_>) = object.owners.iter().partition(|o| gone(&o.uid));
    if dead.is_empty() {
        // An owner that is being deleted in the foreground waits for this one.
        for owner in alive {
            if let Some(owner_place) = shared.store.locate(&owner.uid)
                && load(shared, &owner_place)
                    .is_some_and(|o| o.deleting && o.finalizers.iter().any(|f| f == FOREGROUND))
            {
                finalize(shared, &owner_place).await;
            }
        }
        return;
    }
    if alive.is_empty() {
        remove(shared, place, &object).await;
    } else {
        edit(shared, place, |value| {
            if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|o| !gone(o["uid"].as_str().unwrap_or_default()));
            }
        })
        .await;
    }
}

async fn remove(shared: &Arc<Shared>, place: &Dependent, object: &Stored) {
    let Some(resource) = resource_of(shared, &place.table) else {
        return;
    };
    let call = internal(shared, &resource, &object.key.namespace, &object.key.name);
    let options = Options::background_of(object);
    if let Err(error) = delete::remove(&call, &place.key, &options).await {
        tracing::debug!(table = %place.table, name = %place.key.name, %error, "garbage was not collected");
        retry(shared, place, object);
    }
}

/// Has an object that could not be deleted looked at again when it changes, or has changed by now.
fn retry(shared: &Arc<Shared>, place: &Dependent, object: &Stored) {
    shared.work.refused(place.clone());
    shared.failed(Work::Check(place.clone()));
    if load(shared, place).is_some_and(|now| now.version != object.version) {
        shared.work.push(Work::Check(place.clone()));
    }
}

async fn edit(shared: &Arc<Shared>, place: &Dependent, change: impl Fn(&mut Value)) {
    let Some(resource) = resource_of(shared, &place.table) else {
        return;
    };
    let call = internal(shared, &resource, &place.key.namespace, &place.key.name);
    let result = modify(&call, &place.key, Write::Plain, |old| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    });
    if let Err(error) = result.await {
        shared.failed(Work::Check(place.clone()));
        shared.failed(Work::Finalize(place.clone()));
        tracing::debug!(table = %place.table, name = %place.key.name, %error, "garbage collection could not update");
    }
}

async fn drop_finalizer(shared: &Arc<Shared>, place: &Dependent, name: &str) {
    edit(shared, place, |value| {
        if let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != name);
        }
    })
    .await;
}

/// Goes on with the foreground deletion of the object with this uid, if there is one.
pub(super) async fn owner(shared: &Arc<Shared>, uid: &str) {
    if let Some(place) = shared.store.locate(uid)
        && load(shared, &place).is_some_and(|o| o.deleting)
    {
        finalize(shared, &place).await;
    }
}

/// Does what the finalizers of a terminating object ask of the garbage collector.
pub(super) async fn finalize(shared: &Arc<Shared>, place: &Dependent) {
    let Some(object) = load(shared, place) else {
        return;
    };
    if !object.deleting {
        return;
    }
    let has = |name: &str| object.finalizers.iter().any(|f| f == name);
    if has(ORPHAN) {
        for dependent in shared.store.dependents(&object.uid) {
            edit(shared, &dependent, |value| {
                if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|o| o["uid"] != *object.uid);
                }
            })
            .await;
        }
        drop_finalizer(shared, place, ORPHAN).await;
    }
    if has(FOREGROUND) {
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
                let call = internal(shared, &resource, &found.key.namespace, &found.key.name);
                let options =
                    Options::foreground_if(!shared.store.dependents(&found.uid).is_empty());
                if let Err(error) = delete::remove(&call, &dependent.key, &options).await {
                    tracing::debug!(name = %dependent.key.name, %error, "dependent was not deleted");
                    retry(shared, &dependent, &found);
                }
            }
            blocked |= blocks && load(shared, &dependent).is_some();
        }
        if !blocked {
            drop_finalizer(shared, place, FOREGROUND).await;
        }
    }
}
