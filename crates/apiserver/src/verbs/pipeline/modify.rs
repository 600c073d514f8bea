//! A change of an object: read, change, check and write, and again when somebody else was faster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use serde_json::Value;

use super::admission::{Reviewed, Subject, admit, mutate};
use super::unchanged::{bump_generation, carry_over, same_but_times};
use super::{Write, Written, check_size, commit_error, elsewhere, webhooks};
use crate::allocation::Reserved;
use crate::builtin::warnings::warnings;
use crate::error::ApiError;
use crate::limits;
use crate::quota;
use crate::registry::{Resource, custom};
use crate::resizing;
use crate::shared::CRDS;
use crate::store::{CommitError, Key, Stored};
use crate::verbs::view::{self, to_stored};
use crate::verbs::{Call, text};

/// How often and how long a write without a version of its own is retried when others write the same object.
const MAX_ATTEMPTS: usize = 64;
const MIN_ATTEMPTS: usize = 5;
const MAX_TIME: Duration = Duration::from_millis(500);

/// How often that is done if webhooks are called each time.
const MAX_REVIEWED: usize = 6;

/// The attempts at a write that others may overtake.
#[derive(Debug)]
pub(crate) struct Attempts {
    began: Instant,
    made: usize,
    reviewed: bool,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            made: 0,
            reviewed: false,
        }
    }

    /// Counts an attempt that was overtaken, and reports whether there may be another one.
    pub(crate) fn another(&mut self, reviewed: Reviewed) -> bool {
        self.made += 1;
        self.reviewed |= reviewed == Reviewed::Yes;
        let most = if self.reviewed {
            MAX_REVIEWED
        } else if self.began.elapsed() > MAX_TIME {
            MIN_ATTEMPTS
        } else {
            MAX_ATTEMPTS
        };
        self.made < most
    }
}

/// Reads, changes and writes an object; starts over when somebody else was faster, unless the new object
/// carries a version.
pub(crate) async fn modify(
    call: &Call,
    key: &Key,
    write: Write,
    mut change: impl FnMut(&Value) -> Result<Value, ApiError>,
) -> Result<Written, ApiError> {
    let resource = &*call.resource;
    let mut attempts = Attempts::new();
    loop {
        let stored = call
            .shared
            .store
            .get(&resource.table, key)
            .ok_or_else(|| call.not_found())?;
        let old = view::value(&stored, resource);
        let mut new = change(&old)?;
        check_preconditions(call, key, &stored, &old, &new)?;
        carry_over(call, &old, &mut new);
        let subject = Subject {
            key,
            name: &key.name,
            old: Some(&old),
            write,
        };
        let mutated = mutate(call, &subject, &mut new).await?;
        if mutated == Reviewed::Yes {
            check_preconditions(call, key, &stored, &old, &new)?;
            carry_over(call, &old, &mut new);
        }
        let reserved = admit(call, key, &mut new, Some(&old))?;
        bump_generation(call, &old, &mut new);
        if &*resource.table == CRDS && call.subresource.is_none() {
            custom::set_status(&mut new, &call.shared.registry.snapshot());
        }
        let validated = webhooks::validate(call, &subject, &new).await?;
        let warnings = warnings(resource, &new, Some(&old), call.subresource);
        if same_but_times(&old, &new) {
            return Ok(Written {
                object: stored,
                warnings,
            });
        }
        let reviewed = if mutated == Reviewed::Yes {
            mutated
        } else {
            validated
        };
        match store(call, key, &stored, &old, new, reserved)? {
            Ok(object) => return Ok(Written { object, warnings }),
            Err(CommitError::Stale) if attempts.another(reviewed) => {}
            Err(error) => return Err(commit_error(call, key, error)),
        }
    }
}

/// Stores a changed object, if quotas allow its growth and no other write came first.
fn store(
    call: &Call,
    key: &Key,
    stored: &Stored,
    old: &Value,
    new: Value,
    reserved: Option<Reserved<'_>>,
) -> Result<Result<Arc<Stored>, CommitError>, ApiError> {
    let resource = &*call.resource;
    let turn = make_room(call, key, old, &new)?;
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
    drop((turn, reserved));
    if result.is_ok() {
        call.shared.written(&resource.table);
    }
    Ok(result)
}

/// Refuses what has become too large. What is returned is to be held until the object is stored.
fn make_room<'a>(
    call: &'a Call,
    key: &Key,
    old: &Value,
    new: &Value,
) -> Result<Option<MutexGuard<'a, ()>>, ApiError> {
    if !quota::may_grow(call) {
        return Ok(None);
    }
    limits::check_growth(call, key, old, new)?;
    limits::check(call, key, new)?;
    resizing::check(call, key, old, new)?;
    let turn = quota::turn(call, key);
    if turn.is_some() {
        quota::check(call, key, new, Some(old))?;
    }
    Ok(turn)
}

/// True if nothing holds a deleted object any more.
pub(crate) fn is_finished(resource: &Resource, value: &Value) -> bool {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    empty(&value["metadata"]["finalizers"])
        && (!resource.is("", "namespaces") || empty(&value["spec"]["finalizers"]))
}

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
        return Err(elsewhere());
    }
    let version = text(new, &["metadata", "resourceVersion"]);
    check_version(version)?;
    if !matches!(version, "" | "0") && version != stored.version.to_string() {
        return Err(ApiError::stale(group, plural, &key.name));
    }
    let (uid, has) = (
        text(new, &["metadata", "uid"]),
        text(old, &["metadata", "uid"]),
    );
    if !uid.is_empty() && uid != has {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {has}");
        return Err(ApiError::conflict(group, plural, &key.name, &why));
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

/// Refuses what can be no version of an object.
pub(crate) fn check_version(version: &str) -> Result<(), ApiError> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    let why = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
    Err(ApiError::unknown(why))
}
