//! The restoration of objects and their recent history from a storage.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::history::{Change, History};
use super::object::{Key, Stored};
use super::{Table, TableName};
use crate::storage::{Object, Past, StorageError, Undone};

fn read(bytes: Bytes, key: &Key, table: &str) -> Result<Arc<Stored>, StorageError> {
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| {
        let name = &key.name;
        StorageError(format!("cannot read {table} {name} from storage: {e}"))
    })?;
    let version = value["metadata"]["resourceVersion"].as_str();
    let version = version.and_then(|v| v.parse().ok()).unwrap_or_default();
    Ok(Arc::new(Stored::with_bytes(
        key.clone(),
        version,
        &value,
        bytes,
    )))
}

/// Restores an object from its persisted form.
pub(super) fn restore_object(object: &Object) -> Result<(Key, Arc<Stored>), StorageError> {
    let key = Key {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    let stored = read(object.bytes.clone(), &key, &object.table)?;
    Ok((key, stored))
}

/// Restores the history of tables whose objects are already restored. `latest` contains the version of the latest write
/// to each table.
pub(super) fn restore_history(
    tables: &mut HashMap<TableName, Table>,
    latest: &[(TableName, u64)],
    past: Vec<Past>,
) -> Result<(), StorageError> {
    let changes = replay(tables, past)?;
    // A client that has seen the latest write to a table can resume its watch, even if the history starts later.
    let known_after = changes.first().map_or(u64::MAX, |(_, c)| c.version() - 1);
    for (name, version) in latest {
        let table = tables
            .entry(name.clone())
            .or_insert_with(|| Table::new(*version));
        table.history = History::starting_at(known_after.min(*version));
    }
    for (name, change) in changes {
        if let Some(table) = tables.get_mut(&name) {
            table.history.push(change);
        }
    }
    Ok(())
}

/// Returns the past changes in version order. To find the object before and after each change, undoes the changes from
/// the latest to the earliest.
fn replay(
    tables: &HashMap<TableName, Table>,
    past: Vec<Past>,
) -> Result<Vec<(TableName, Change)>, StorageError> {
    let mut names: HashSet<TableName> = tables.keys().cloned().collect();
    let mut then: HashMap<(TableName, Key), Option<Arc<Stored>>> = HashMap::new();
    let mut changes = Vec::with_capacity(past.len());
    for past in past.into_iter().rev() {
        let name = match names.get(&past.table) {
            Some(name) => name.clone(),
            None => past.table.clone(),
        };
        names.insert(name.clone());
        let key = Key {
            namespace: past.namespace,
            name: past.name,
        };
        let after = then.entry((name.clone(), key.clone())).or_insert_with(|| {
            let table = tables.get(&name);
            table.and_then(|t| t.objects.get(&key)).cloned()
        });
        let change = match (past.undone, after.take()) {
            (Undone::Created, Some(new)) => Change::Added(new),
            (Undone::Replaced { before }, Some(new)) => Change::Modified {
                old: read(before, &key, &name)?,
                new,
            },
            (Undone::Removed { before, last }, None) => Change::Deleted {
                old: read(before, &key, &name)?,
                last: read(last, &key, &name)?,
            },
            // This past change does not match the restored objects, so earlier changes cannot be restored.
            _ => break,
        };
        if change.version() != past.version {
            break;
        }
        *after = change.before().cloned();
        changes.push((name, change));
    }
    changes.reverse();
    Ok(changes)
}
