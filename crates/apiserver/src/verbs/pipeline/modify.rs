//! Updates of objects: read, change, admit and write, with retries after conflicts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use serde_json::Value;

use super::admission::{admit, mutate};
use super::preserved_fields::{self, bump_generation, same_but_times};
use super::webhooks::{Reviewed, Subject};
use super::{
    WriteKind, check_size, commit_error, limit_range, namespace_mismatch, pod_resize, quota,
    webhooks,
};
use crate::allocation::Reserved;
use crate::error::ApiError;
use crate::registry::custom;
use crate::resource::Resource;
use crate::store::{CommitError, Key, Stored};
use crate::tables::DEFINITIONS;
use crate::verbs::version_conversion::{self, to_stored};
use crate::verbs::{Call, text};

/// Maximum attempts at a conflicting write. Only writes without a resourceVersion are retried.
const MAX_ATTEMPTS: usize = 64;
/// Maximum attempts at a write that takes longer than [`MAX_TIME`].
const MAX_SLOW_ATTEMPTS: usize = 5;
const MAX_TIME: Duration = Duration::from_millis(500);
/// Maximum attempts at a write that calls webhooks.
const MAX_REVIEWED_ATTEMPTS: usize = 6;

/// The attempts at a write that may conflict with other writes.
#[derive(Debug)]
pub(crate) struct Attempts {
    began: Instant,
    count: usize,
    reviewed: bool,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            count: 0,
            reviewed: false,
        }
    }

    /// Counts a conflict, and reports whether the write may be retried.
    pub(crate) fn retry(&mut self, reviewed: Reviewed) -> bool {
        self.count += 1;
        self.reviewed |= reviewed == Reviewed::Yes;
        let max = if self.reviewed {
            MAX_REVIEWED_ATTEMPTS
        } else if self.began.elapsed() > MAX_TIME {
            MAX_SLOW_ATTEMPTS
        } else {
            MAX_ATTEMPTS
        };
        self.count < max
    }
}

/// Updates an object. A conflict is retried unless the new object has a resourceVersion.
pub(crate) async fn modify(
    call: &Call,
    key: &Key,
    write: WriteKind,
    mut change: impl FnMut(&Value) -> Result<Value, ApiError>,
) -> Result<Arc<Stored>, ApiError> {
    let resource = &*call.resource;
    let mut attempts = Attempts::new();
    loop {
        let stored = call
            .shared
            .store
            .get(&resource.table, key)
            .ok_or_else(|| call.not_found())?;
        let old = version_conversion::value(&stored, resource);
        let mut new = change(&old)?;
        check_preconditions(call, key, &stored, &old, &new)?;
        preserved_fields::restore(call, &old, &mut new);
        let subject = Subject {
            key,
            name: &key.name,
            old: Some(&old),
            write,
        };
        let mutated = mutate(call, &subject, &mut new).await?;
        if mutated == Reviewed::Yes {
            check_preconditions(call, key, &stored, &old, &new)?;
            preserved_fields::restore(call, &old, &mut new);
        }
        let reserved = admit(call, key, &mut new, Some(&old))?;
        bump_generation(call, &old, &mut new);
        if &*resource.table == DEFINITIONS && call.subresource.is_none() {
            custom::set_status(&mut new, &call.shared.registry.snapshot());
        }
        let validated = webhooks::validate(call, &subject, &new).await?;
        if same_but_times(&old, &new) {
            return Ok(stored);
        }
        let reviewed = if mutated == Reviewed::Yes {
            mutated
        } else {
            validated
        };
        match store(call, key, &stored, &old, new, reserved)? {
            Ok(object) => return Ok(object),
            Err(CommitError::Stale) if attempts.retry(reviewed) => {}
            Err(error) => return Err(commit_error(call, key, error)),
        }
    }
}

/// Stores an update if quotas allow it and no other write came first.
fn store(
    call: &Call,
    key: &Key,
    stored: &Stored,
    old: &Value,
    new: Value,
    reserved: Option<Reserved<'_>>,
) -> Result<Result<Arc<Stored>, CommitError>, ApiError> {
    let resource = &*call.resource;
    let quota_guard = check_growth(call, key, old, &new)?;
    let mut new = to_stored(new, resource);
    check_size(&new, Some(stored))?;
    if call.options.dry_run {
        let object = Stored::new(key.clone(), stored.version, &new)
            .map_err(|e| ApiError::internal(e.to_string()))?;
        return Ok(Ok(Arc::new(object)));
    }
    let finished = stored.deleting && is_finished(resource, &new);
    let store = &call.shared.store;
    let result = if finished {
        store.remove(&resource.table, key, stored.version, &mut new)
    } else {
        store.update(&resource.table, key, stored.version, &mut new)
    };
    drop((quota_guard, reserved));
    if result.is_ok() {
        call.shared.after_write(&resource.table);
    }
    Ok(result)
}

/// Checks limits and quotas for an object that may use more resources. The caller must hold the returned quota lock
/// until the object is stored.
fn check_growth<'a>(
    call: &'a Call,
    key: &Key,
    old: &Value,
    new: &Value,
) -> Result<Option<MutexGuard<'a, ()>>, ApiError> {
    if !quota::may_grow(call) {
        return Ok(None);
    }
    limit_range::check_growth(call, key, old, new)?;
    limit_range::check(call, key, new)?;
    pod_resize::check(call, key, old, new)?;
    let quota_guard = quota::lock(call, key);
    if quota_guard.is_some() {
        quota::check(call, key, new, Some(old))?;
    }
    Ok(quota_guard)
}

/// Reports whether a deleted object has no finalizers left.
pub(crate) fn is_finished(resource: &Resource, value: &Value) -> bool {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    empty(&value["metadata"]["finalizers"])
        && (!resource.is("", "namespaces") || empty(&value["spec"]["finalizers"]))
}

/// Checks namespace, name, uid and resourceVersion of the new object.
fn check_preconditions(
    call: &Call,
    key: &Key,
    stored: &Stored,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    let namespace = text(new, &["metadata", "namespace"]);
    if !namespace.is_empty() && namespace != &*key.namespace {
        return Err(namespace_mismatch());
    }
    let version = text(new, &["metadata", "resourceVersion"]);
    check_version(version)?;
    if !matches!(version, "" | "0") && version != stored.version.to_string() {
        return Err(ApiError::stale(group, plural, &key.name));
    }
    let (uid, current) = (
        text(new, &["metadata", "uid"]),
        text(old, &["metadata", "uid"]),
    );
    if !uid.is_empty() && uid != current {
        let message = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        );
        return Err(ApiError::conflict(group, plural, &key.name, &message));
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

/// Refuses a malformed resourceVersion.
pub(crate) fn check_version(version: &str) -> Result<(), ApiError> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
    Err(ApiError::unknown(message))
}
