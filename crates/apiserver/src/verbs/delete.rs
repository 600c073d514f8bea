//! delete and deletecollection.

mod options;

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::pipeline::Attempts;
use super::{Call, pipeline, read};
use crate::clock;
use crate::error::{ApiError, Reason};
use crate::http::query::Query;
use crate::http::respond;
use crate::registry::Resource;
use crate::shared::CRDS;
use crate::store::{CommitError, Key, Stored};
use crate::table::Include;
pub(crate) use options::Options;
use options::Propagation;

/// Finalizers that garbage collection understands.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
/// Holds a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a delete came to.
pub(crate) enum Deleted {
    Gone(Arc<Stored>),
    /// Finalizers hold it.
    Terminating(Arc<Stored>),
}

pub(crate) async fn delete(
    call: &Call,
    query: &Query,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    if call.subresource.is_some() {
        return Err(crate::http::method_not_allowed());
    }
    let options = Options::parse(call, query, content_type, bytes)?;
    let resource = &call.resource;
    let answer = match remove(call, &call.key(), &options).await? {
        Deleted::Terminating(object) => Ok(call.answer(StatusCode::OK, &object)),
        Deleted::Gone(object) if resource.is("", "pods") => {
            Ok(call.answer(StatusCode::OK, &ended(&object)?))
        }
        Deleted::Gone(object) if is_answered_with_itself(resource) => {
            Ok(call.answer(StatusCode::OK, &object))
        }
        Deleted::Gone(object) => {
            let mut details =
                json!({"name": &*object.key.name, "kind": resource.plural, "uid": &*object.uid});
            if !resource.group.is_empty() {
                details["group"] = json!(resource.group);
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(respond::json_value(StatusCode::OK, &status))
        }
    };
    answer.map(|answer| warned(call, &options, answer))
}

fn warned(call: &Call, options: &Options, answer: Response<Body>) -> Response<Body> {
    if call.resource.is("batch", "jobs") && options.propagation == Propagation::Default {
        return respond::warn(answer, &[PODS_STAY.to_owned()]);
    }
    answer
}

/// Told to those who delete a job and do not say what is to become of its pods.
const PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
    to remove them or set propagationPolicy=Orphan to suppress this warning";

/// A pod as the one who deleted it is shown it: nothing runs that could take its time.
fn ended(pod: &Stored) -> Result<Stored, ApiError> {
    let mut value = pod.value();
    value["metadata"]["deletionTimestamp"] = json!(clock::now());
    value["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = value["metadata"]["generation"].as_i64() {
        value["metadata"]["generation"] = json!(generation + 1);
    }
    Stored::new(pod.key.clone(), pod.version, &value)
        .map_err(|error| ApiError::internal(error.to_string()))
}

pub(crate) async fn collection(
    call: &Call,
    query: &Query,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    if resource_is_not_deleted_at_once(call) {
        return Err(crate::http::method_not_allowed());
    }
    let options = Options::parse(call, query, content_type, bytes)?;
    let selector = read::selector(call, query)?;
    let mut page = call
        .shared
        .store
        .list(&call.resource.table, call.namespace.as_deref());
    page.items.retain(|o| selector.matches(o, &call.resource));
    for object in &page.items {
        match remove(call, &object.key, &options).await {
            Err(error) if error.reason != Reason::NotFound => return Err(error),
            _ => {}
        }
    }
    // As they were when they were found.
    let meta = read::list_meta(call, page.version);
    let found_none = page.items.is_empty();
    let answer = read::render(call, page.items, &meta, Include::Metadata);
    Ok(if found_none {
        answer
    } else {
        warned(call, &options, answer)
    })
}

/// True for objects of all namespaces, and for namespaces.
fn resource_is_not_deleted_at_once(call: &Call) -> bool {
    let everywhere = call.resource.namespaced() && call.namespace.is_none();
    everywhere || call.resource.is("", "namespaces")
}

/// True if the answer is the object that is gone, and not a status.
fn is_answered_with_itself(resource: &Resource) -> bool {
    match resource.group.as_str() {
        "" => matches!(
            resource.plural.as_str(),
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "resourcequotas"
        ),
        "storage.k8s.io" => true,
        _ => false,
    }
}

/// Deletes one object, or marks it as terminating when finalizers hold it.
pub(crate) async fn remove(call: &Call, key: &Key, options: &Options) -> Result<Deleted, ApiError> {
    let (resource, store) = (&call.resource, &call.shared.store);
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let mut attempts = Attempts::new();
    loop {
        let stored = store
            .get(&resource.table, key)
            .ok_or_else(|| ApiError::not_found(group, plural, &key.name))?;
        check(call, key, &stored, options)?;
        let mut value = resource.read(&stored);
        let reviewed = pipeline::admit_delete(call, key, &value, options).await?;
        let mut finalizers = finalizers_after(resource, &stored, options.propagation);
        if &*resource.table == CRDS
            && !stored.deleting
            && !store.list(&key.name, None).items.is_empty()
        {
            finalizers.push(CLEANUP.to_owned());
        }
        if finalizers.is_empty() {
            if let Some(meta) = value["metadata"].as_object_mut() {
                meta.remove("finalizers");
            }
        } else {
            value["metadata"]["finalizers"] = json!(finalizers);
        }
        let held = !pipeline::is_finished(resource, &value);
        if stored.deleting && held && finalizers == stored.finalizers {
            return Ok(Deleted::Terminating(stored));
        }
        if held && !stored.deleting {
            value["metadata"]["deletionTimestamp"] = json!(clock::now());
            if resource.is("", "namespaces") {
                value["status"]["phase"] = json!("Terminating");
            } else {
                value["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            }
            if let Some(generation) = value["metadata"]["generation"].as_i64() {
                value["metadata"]["generation"] = json!(generation + 1);
            }
        }
        if options.dry_run && held {
            let version = stored.version;
            let held = Stored::new(key.clone(), version, &value)
                .map_err(|error| ApiError::internal(error.to_string()))?;
            return Ok(Deleted::Terminating(Arc::new(held)));
        } else if options.dry_run {
            return Ok(Deleted::Gone(stored));
        }
        let result = if held {
            store
                .update(&resource.table, key, stored.version, &mut value)
                .map(Deleted::Terminating)
        } else {
            store
                .remove(&resource.table, key, stored.version, &mut value)
                .map(Deleted::Gone)
        };
        match result {
            Ok(done) => {
                call.shared.written(&resource.table);
                return Ok(done);
            }
            Err(CommitError::Stale) if attempts.another(reviewed) => {}
            Err(CommitError::Stale) => return Err(ApiError::stale(group, plural, &key.name)),
            Err(CommitError::Gone) => return Err(ApiError::not_found(group, plural, &key.name)),
            Err(CommitError::Storage(error)) => return Err(ApiError::unkept(error)),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

fn check(call: &Call, key: &Key, stored: &Stored, options: &Options) -> Result<(), ApiError> {
    options.check(call, key, &stored.uid, &stored.version.to_string())?;
    if call.resource.is("", "namespaces")
        && matches!(&*key.name, "default" | "kube-system" | "kube-public")
    {
        return Err(ApiError::forbidden(
            "",
            "namespaces",
            &key.name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

fn finalizers_after(resource: &Resource, stored: &Stored, propagation: Propagation) -> Vec<String> {
    let mut finalizers = stored.finalizers.clone();
    let says = |f: &String| f == FOREGROUND || f == ORPHAN;
    let wanted = match propagation {
        Propagation::Default if !finalizers.iter().any(says) && orphans(resource) => Some(ORPHAN),
        Propagation::Default => return finalizers,
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    finalizers.retain(|f| !says(f));
    finalizers.extend(wanted.map(str::to_owned));
    finalizers
}

/// Kinds that are older than garbage collection leave their pods behind, unless the client says what it wants.
fn orphans(resource: &Resource) -> bool {
    resource.is("batch", "jobs") || resource.is("", "replicationcontrollers")
}
