//! Accounts, such as quotas: objects that change together with a write. The hooks compute the new accounts.
//!
//! A write is charged after all other checks, directly before it is stored. One lock serializes the charges of all
//! writes, so that two writes cannot use the same amount. If the write cannot be stored, its charges are undone.

use std::sync::Arc;

use parking_lot::MutexGuard;
use serde_json::Value;

use super::admission_steps::{denied, operation, request};
use super::commit_error;
use crate::admission::{Admission, AdmissionRequest};
use crate::error::{ApiError, Reason};
use crate::store::{CommitError, Key, Stored, TableName};
use crate::verbs::Call;

/// Maximum number of attempts to charge a write while clients change the accounts.
const MAX_ATTEMPTS: usize = 16;

/// The charges of a write that is not stored yet.
pub(super) struct Charges<'a> {
    call: &'a Call,
    table: TableName,
    /// The former content of each changed account, and its new version.
    changed: Vec<(Arc<Stored>, u64)>,
    _lock: MutexGuard<'a, ()>,
}

impl Charges<'_> {
    /// Restores the accounts, because the write was not stored. An account that a client has changed meanwhile keeps
    /// the charge; controllers correct it.
    pub(super) fn undo(&mut self) {
        for (former, version) in std::mem::take(&mut self.changed) {
            let store = &self.call.shared.store;
            drop(store.update(&self.table, &former.key, version, &mut former.value()));
        }
    }
}

/// Charges a write to the accounts of its namespace, with the first hook that has accounts for the resource. A dry run is
/// checked, and changes no account. The caller must keep the charges until the object is stored.
pub(super) fn charge<'a>(
    call: &'a Call,
    key: &Key,
    old: Option<&Value>,
    object: &Value,
) -> Result<Option<Charges<'a>>, ApiError> {
    let request = request(call, operation(old), key, old);
    let mut hooks = call.shared.admission.iter();
    let found = hooks.find_map(|hook| Some((hook, hook.accounts(&request)?)));
    let Some((hook, accounts)) = found else {
        return Ok(None);
    };
    let table = TableName::from(format!("{}.{}", accounts.resource, accounts.group));
    charge_with(call, &**hook, &table, &request, object)
}

fn charge_with<'a>(
    call: &'a Call,
    hook: &dyn Admission,
    table: &TableName,
    request: &AdmissionRequest<'_>,
    object: &Value,
) -> Result<Option<Charges<'a>>, ApiError> {
    let store = &call.shared.store;
    if store.list(table, request.namespace).items.is_empty() {
        return Ok(None);
    }
    let mut charges = Charges {
        call,
        table: table.clone(),
        changed: Vec::new(),
        _lock: call.shared.accounts_lock.lock(),
    };
    for _ in 0..MAX_ATTEMPTS {
        let stored = store.list(table, request.namespace).items;
        let accounts: Vec<Value> = stored.iter().map(|account| account.value()).collect();
        let new = hook
            .charge(request, object, &accounts)
            .map_err(|denial| denied(call, request.name, denial))?;
        if call.options.dry_run || new.is_empty() {
            return Ok(None);
        }
        match store_accounts(&mut charges, &stored, new) {
            Ok(()) => return Ok(Some(charges)),
            Err(CommitError::Stale | CommitError::Gone) => charges.undo(),
            Err(error) => {
                charges.undo();
                let key = Key::new(request.namespace.unwrap_or_default(), request.name);
                return Err(commit_error(call, &key, error));
            }
        }
    }
    Err(ApiError::new(
        Reason::Conflict,
        format!("the objects of {table} change too often; try again"),
    ))
}

fn store_accounts(
    charges: &mut Charges<'_>,
    stored: &[Arc<Stored>],
    new: Vec<Value>,
) -> Result<(), CommitError> {
    for mut account in new {
        let name = account["metadata"]["name"].as_str().unwrap_or_default();
        let former = stored.iter().find(|former| &*former.key.name == name);
        let former = former.ok_or(CommitError::Gone)?;
        let store = &charges.call.shared.store;
        let written = store.update(&charges.table, &former.key, former.version, &mut account)?;
        charges.changed.push((Arc::clone(former), written.version));
    }
    Ok(())
}
