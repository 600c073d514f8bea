//! The loop behind all updates, which PUT, patch and the subresources share. Each attempt reads the object, applies the
//! change, runs admission, and stores the result. A conflict with another write causes a new attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use serde_json::Value;

use super::accounts::{self, Charges};
use super::admission_steps::{admit, mutate};
use super::prepare_update::{bump_generation, is_no_op, restore_preserved_fields};
use super::webhook_dispatch::{Matched, Subject};
use super::{
    WriteKind, check_size, commit_error, limit_range, namespace_mismatch, pod_resize, quota,
    webhook_dispatch,
};
use crate::allocation::Reserved;
use crate::error::ApiError;
use crate::registry::custom_resource_definition;
use crate::resource::Resource;
use crate::store::{CommitError, Key, Stored};
use crate::table_names::DEFINITIONS;
use crate::verbs::version_conversion::{self, to_stored};
use crate::verbs::{Call, text};

/// Maximum number of attempts to store one update or deletion. Only updates without a resourceVersion, and deletions,
/// are retried.
const MAX_ATTEMPTS: usize = 64;
/// Maximum number of attempts if all attempts together take longer than [`MAX_TIME`].
const MAX_SLOW_ATTEMPTS: usize = 5;
const MAX_TIME: Duration = Duration::from_millis(500);
/// Maximum number of attempts if webhooks match an attempt.
const MAX_WEBHOOK_ATTEMPTS: usize = 6;

/// A counter of the failed attempts to store one update or deletion.
#[derive(Debug)]
pub(crate) struct Attempts {
    began: Instant,
    count: usize,
    matched: bool,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            count: 0,
            matched: false,
        }
    }

    /// Counts a failed attempt, and reports whether a new attempt is allowed. `matched` is `Yes` if webhooks
    /// matched the failed attempt.
    pub(crate) fn retry(&mut self, matched: Matched) -> bool {
        self.count += 1;
        self.matched |= matched == Matched::Yes;
        let max = if self.matched {
            MAX_WEBHOOK_ATTEMPTS
        } else if self.began.elapsed() > MAX_TIME {
            MAX_SLOW_ATTEMPTS
        } else {
            MAX_ATTEMPTS
        };
        self.count < max
    }
}

/// Updates an object with `change`. After a conflict, retries the update unless the new object has a resourceVersion.
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
        restore_preserved_fields(call, &old, &mut new);
        let subject = Subject {
            key,
            name: &key.name,
            old: Some(&old),
            write,
        };
        let mutated = mutate(call, &subject, &mut new).await?;
        if mutated == Matched::Yes {
            check_preconditions(call, key, &stored, &old, &new)?;
            restore_preserved_fields(call, &old, &mut new);
        }
        let reserved = admit(call, key, &mut new, Some(&old))?;
        bump_generation(call, &old, &mut new);
        if &*resource.table == DEFINITIONS && call.subresource.is_none() {
            custom_resource_definition::set_status(&mut new, &call.shared.registry.snapshot());
        }
        let validated = webhook_dispatch::validate(call, &subject, &new).await?;
        if is_no_op(&old, &new) {
            return Ok(stored);
        }
        let matched = if mutated == Matched::Yes {
            mutated
        } else {
            validated
        };
        match store(call, key, &stored, &old, new, reserved)? {
            Ok(object) => return Ok(object),
            Err(CommitError::Stale) if attempts.retry(matched) => {}
            Err(error) => return Err(commit_error(call, key, error)),
        }
    }
}

/// Checks the quotas, and stores the new version of an object. Removes the object instead if it is terminating and has
/// no finalizers left. The inner result is an error if the store refuses the write, for example after a conflict with
/// another write.
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
    let mut charges = accounts::charge(call, key, Some(old), &new)?;
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
    match &result {
        Ok(_) => call.shared.after_write(&resource.table),
        Err(_) => charges.iter_mut().for_each(Charges::undo),
    }
    drop((charges, quota_guard, reserved));
    Ok(result)
}

/// If the update may increase the resource usage of the object, checks the LimitRanges, the node of a resized pod, and
/// the quotas. The caller must hold the returned quota lock until the object is stored.
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
    let quota_guard = quota::global_lock(call, key);
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

/// Checks that the namespace, name, uid and resourceVersion in the new object match the stored object.
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

/// Refuses a resourceVersion that is not a number.
pub(crate) fn check_version(version: &str) -> Result<(), ApiError> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
    Err(ApiError::unknown(message))
}
