//! The delete and deletecollection verbs.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::delete_options::{DeleteOptions, Propagation};
use super::pipeline::Attempts;
use super::{Call, Content, Outcome, pipeline, read};
use crate::clock;
use crate::error::{ApiError, Reason};
use crate::query::Query;
use crate::resource::Resource;
use crate::shared::well_known::{CLEANUP_FINALIZER, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::store::{CommitError, Key, Stored};
use crate::table_names::DEFINITIONS;

/// The outcome of a deletion.
pub(crate) enum Deleted {
    Removed(Arc<Stored>),
    /// The object still exists, because it has finalizers.
    Terminating(Arc<Stored>),
}

/// Deletes an object.
pub(crate) async fn delete(
    call: &Call,
    query: &Query,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    if call.subresource.is_some() {
        return Err(ApiError::method_not_allowed());
    }
    let options = DeleteOptions::parse(call, query, content_type, bytes)?;
    let resource = &call.resource;
    let content = match remove(call, &call.key(), &options).await? {
        Deleted::Terminating(object) => Content::Object(object),
        Deleted::Removed(object) if resource.is("", "pods") => {
            Content::Object(Arc::new(terminated_pod(&object)?))
        }
        Deleted::Removed(object) if returns_deleted_object(resource) => Content::Object(object),
        Deleted::Removed(object) => {
            let mut details =
                json!({"name": &*object.key.name, "kind": resource.plural, "uid": &*object.uid});
            if !resource.group.is_empty() {
                details["group"] = json!(resource.group);
            }
            Content::Value(json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            }))
        }
    };
    Ok(Outcome::found(content).warn(job_warning(call, &options)))
}

/// Returns the warning for the deletion of a Job without a propagation policy.
fn job_warning(call: &Call, options: &DeleteOptions) -> Option<String> {
    let is_default = options.propagation == Propagation::Default;
    (call.resource.is("batch", "jobs") && is_default).then(|| PODS_PRESERVED.to_owned())
}

const PODS_PRESERVED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
    to remove them or set propagationPolicy=Orphan to suppress this warning";

/// Returns a deleted pod with its deletion timestamp and a grace period of zero.
fn terminated_pod(pod: &Stored) -> Result<Stored, ApiError> {
    let mut value = pod.value();
    value["metadata"]["deletionTimestamp"] = json!(clock::now());
    value["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = value["metadata"]["generation"].as_i64() {
        value["metadata"]["generation"] = json!(generation + 1);
    }
    Stored::new(pod.key.clone(), pod.version, &value)
        .map_err(|error| ApiError::internal(error.to_string()))
}

/// Deletes a collection of objects.
pub(crate) async fn collection(
    call: &Call,
    query: &Query,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    if !supports_collection(call) {
        return Err(ApiError::method_not_allowed());
    }
    let options = DeleteOptions::parse(call, query, content_type, bytes)?;
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
    let meta = read::list_meta(call, page.version);
    let warning = job_warning(call, &options).filter(|_| !page.items.is_empty());
    let items = page.items;
    Ok(Outcome::found(Content::List { items, meta }).warn(warning))
}

/// Reports whether the request may delete a collection. It may not delete across namespaces, and it may not delete
/// namespaces.
fn supports_collection(call: &Call) -> bool {
    let all_namespaces = call.resource.namespaced() && call.namespace.is_none();
    !all_namespaces && !call.resource.is("", "namespaces")
}

/// Reports whether a delete returns the deleted object rather than a `Status`.
fn returns_deleted_object(resource: &Resource) -> bool {
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

/// Deletes an object, or marks it as terminating if it has finalizers.
pub(crate) async fn remove(
    call: &Call,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let (resource, store) = (&call.resource, &call.shared.store);
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let mut attempts = Attempts::new();
    loop {
        let stored = store
            .get(&resource.table, key)
            .ok_or_else(|| ApiError::not_found(group, plural, &key.name))?;
        check(call, key, &stored, options)?;
        let mut value = resource.read(&stored);
        let matched = pipeline::admit_delete(call, key, &value, options).await?;
        let mut finalizers = finalizers_after(resource, &stored, options.propagation);
        if &*resource.table == DEFINITIONS
            && !stored.deleting
            && !store.list(&key.name, None).items.is_empty()
        {
            finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        if finalizers.is_empty() {
            if let Some(meta) = value["metadata"].as_object_mut() {
                meta.remove("finalizers");
            }
        } else {
            value["metadata"]["finalizers"] = json!(finalizers);
        }
        let has_finalizers = !pipeline::is_finished(resource, &value);
        if stored.deleting && has_finalizers && finalizers == stored.finalizers {
            return Ok(Deleted::Terminating(stored));
        }
        if has_finalizers && !stored.deleting {
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
        if options.dry_run && has_finalizers {
            let version = stored.version;
            let terminating = Stored::new(key.clone(), version, &value)
                .map_err(|error| ApiError::internal(error.to_string()))?;
            return Ok(Deleted::Terminating(Arc::new(terminating)));
        } else if options.dry_run {
            return Ok(Deleted::Removed(stored));
        }
        let result = if has_finalizers {
            store
                .update(&resource.table, key, stored.version, &mut value)
                .map(Deleted::Terminating)
        } else {
            store
                .remove(&resource.table, key, stored.version, &mut value)
                .map(Deleted::Removed)
        };
        match result {
            Ok(done) => {
                call.shared.after_write(&resource.table);
                return Ok(done);
            }
            Err(CommitError::Stale) if attempts.retry(matched) => {}
            Err(CommitError::Stale) => return Err(ApiError::stale(group, plural, &key.name)),
            Err(CommitError::Gone) => return Err(ApiError::not_found(group, plural, &key.name)),
            Err(CommitError::Storage(error)) => return Err(ApiError::not_durable(error)),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

/// Checks the preconditions of the request. Refuses to delete an initial namespace.
fn check(call: &Call, key: &Key, stored: &Stored, options: &DeleteOptions) -> Result<(), ApiError> {
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

/// Returns the finalizers of an object after a delete with this propagation policy.
fn finalizers_after(resource: &Resource, stored: &Stored, propagation: Propagation) -> Vec<String> {
    let mut finalizers = stored.finalizers.clone();
    let is_policy = |f: &String| f == FOREGROUND_FINALIZER || f == ORPHAN_FINALIZER;
    let added = match propagation {
        Propagation::Default
            if !finalizers.iter().any(is_policy) && orphans_by_default(resource) =>
        {
            Some(ORPHAN_FINALIZER)
        }
        Propagation::Default => return finalizers,
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND_FINALIZER),
        Propagation::Orphan => Some(ORPHAN_FINALIZER),
    };
    finalizers.retain(|f| !is_policy(f));
    finalizers.extend(added.map(str::to_owned));
    finalizers
}

/// Reports whether objects of a kind orphan their dependents if a delete has no propagation policy. Such kinds are
/// older than garbage collection.
fn orphans_by_default(resource: &Resource) -> bool {
    resource.is("batch", "jobs") || resource.is("", "replicationcontrollers")
}
