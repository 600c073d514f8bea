//! delete and deletecollection.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Call, pipeline, read, to_view};
use crate::clock;
use crate::error::{ApiError, Cause};
use crate::http::query::Query;
use crate::http::{body, respond};
use crate::shared::CRDS;
use crate::store::{CommitError, Key, Stored};

/// What becomes of the objects a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Propagation {
    /// Whatever finalizers the object has say so; else background.
    Default,
    Background,
    Foreground,
    Orphan,
}

/// Finalizers that garbage collection understands.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
/// Holds a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug, Clone)]
pub(crate) struct Options {
    propagation: Propagation,
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

impl Options {
    /// Delete now, dependents later.
    pub(crate) fn background() -> Self {
        Self {
            propagation: Propagation::Background,
            uid: None,
            version: None,
            dry_run: false,
        }
    }

    /// As the garbage collector deletes `object`: whatever finalizers it has are kept.
    pub(crate) fn background_of(object: &Stored) -> Self {
        let own = object
            .finalizers
            .iter()
            .any(|f| f == FOREGROUND || f == ORPHAN);
        Self {
            propagation: if own {
                Propagation::Default
            } else {
                Propagation::Background
            },
            ..Self::background()
        }
    }

    /// As the garbage collector deletes below a foreground deletion.
    pub(crate) fn foreground_if(has_dependents: bool) -> Self {
        let propagation = if has_dependents {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        Self {
            propagation,
            ..Self::background()
        }
    }

    fn parse(
        call: &Call,
        query: &Query,
        content_type: &str,
        bytes: &Bytes,
    ) -> Result<Self, ApiError> {
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            body::object(content_type, bytes)?.value
        };
        let policy = body["propagationPolicy"]
            .as_str()
            .or_else(|| query.get("propagationPolicy"));
        let orphan = body["orphanDependents"]
            .as_bool()
            .or_else(|| query.get("orphanDependents").map(|v| v == "true"));
        let propagation = match (policy, orphan) {
            (Some("Background"), _) | (None, Some(false)) => Propagation::Background,
            (Some("Foreground"), _) => Propagation::Foreground,
            (Some("Orphan"), _) | (None, Some(true)) => Propagation::Orphan,
            (None, None) => Propagation::Default,
            (Some(other), _) => {
                let allowed = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
                let cause = Cause::not_supported("propagationPolicy", &json!(other), &allowed);
                return Err(ApiError::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    vec![cause],
                ));
            }
        };
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        let dry_run = call.options.dry_run
            || body["dryRun"]
                .as_array()
                .is_some_and(|d| d.iter().any(|v| v == "All"));
        Ok(Self {
            propagation,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run,
        })
    }
}

/// What a delete came to.
pub(crate) enum Deleted {
    Gone(Arc<Stored>),
    /// Finalizers hold it.
    Terminating(Arc<Stored>),
}

pub(crate) fn delete(
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
    match remove(call, &call.key(), &options)? {
        Deleted::Terminating(object) => Ok(call.answer(StatusCode::OK, &object)),
        // Pods and namespaces answer with the object, everything else with a status.
        Deleted::Gone(object) if resource.is("", "pods") || resource.is("", "services") => {
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
    }
}

pub(crate) fn collection(
    call: &Call,
    query: &Query,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let options = Options::parse(call, query, content_type, bytes)?;
    let selector = read::selector(call, query)?;
    let page = call
        .shared
        .store
        .list(&call.resource.table, call.namespace.as_deref());
    let mut items = Vec::new();
    for object in page
        .items
        .iter()
        .filter(|o| selector.matches(o, &call.resource))
    {
        match remove(call, &object.key, &options) {
            Ok(Deleted::Gone(o) | Deleted::Terminating(o)) => {
                items.push(to_view(o.value(), &call.resource));
            }
            Err(error) if error.reason == crate::error::Reason::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let list = json!({
        "kind": call.resource.list_kind, "apiVersion": call.resource.api_version(),
        "metadata": {"resourceVersion": call.shared.store.version().to_string()}, "items": items,
    });
    Ok(respond::json_value(StatusCode::OK, &list))
}

/// Deletes one object, or marks it as terminating when finalizers hold it.
pub(crate) fn remove(call: &Call, key: &Key, options: &Options) -> Result<Deleted, ApiError> {
    let (resource, store) = (&call.resource, &call.shared.store);
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    loop {
        let stored = store
            .get(&resource.table, key)
            .ok_or_else(|| ApiError::not_found(group, plural, &key.name))?;
        check(call, key, &stored, options)?;
        let mut value = stored.value();
        pipeline::admit_delete(call, key, &value)?;
        let mut finalizers = finalizers_after(&stored, options.propagation);
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
        if options.dry_run {
            return Ok(if held {
                Deleted::Terminating(stored)
            } else {
                Deleted::Gone(stored)
            });
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
            Err(CommitError::Stale) => {}
            Err(CommitError::Gone) => return Err(ApiError::not_found(group, plural, &key.name)),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
}

fn check(call: &Call, key: &Key, stored: &Stored, options: &Options) -> Result<(), ApiError> {
    let conflict = |what: &str, wanted: &str, has: &str| {
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {has}"
        );
        Err(ApiError::conflict(
            &call.resource.group,
            &call.resource.plural,
            &key.name,
            &why,
        ))
    };
    if let Some(uid) = &options.uid
        && **uid != *stored.uid
    {
        return conflict("UID", uid, &stored.uid);
    }
    let version = stored.version.to_string();
    if let Some(wanted) = &options.version
        && *wanted != version
    {
        return conflict("ResourceVersion", wanted, &version);
    }
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

fn finalizers_after(stored: &Stored, propagation: Propagation) -> Vec<String> {
    let mut finalizers = stored.finalizers.clone();
    let wanted = match propagation {
        Propagation::Default => return finalizers,
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
    finalizers.extend(wanted.map(str::to_owned));
    finalizers
}
