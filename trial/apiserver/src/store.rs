//! The in-memory store: all objects, one global version counter, and the recent history of each table.
//!
//! One lock protects the whole store. The lock is never held across an await or while hooks of the embedding program
//! run. The store may be ahead of the storage: a response waits with [`Store::wait_durable`]. The store must not know
//! kinds, schemas or HTTP.

mod history;
mod object;
mod owners;
mod persister;
mod restore;
mod table;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) use history::{Change, TooOld};
pub(crate) use object::{Key, Stored, encode};
pub(crate) use owners::ObjectLocation;
use owners::OwnerIndex;
pub(crate) use persister::NotDurable;
use persister::Persister;
use restore::{restore_history, restore_object};
use table::Table;

use crate::storage::{Storage, StorageError};

/// The name of a table, for example `pods` or `deployments.apps`.
pub(crate) type TableName = Arc<str>;

/// An error of writing to the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    #[error("the object exists already")]
    Exists,
    #[error("the object is gone")]
    Gone,
    #[error("the object has changed")]
    Stale,
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("failed to serialise the object")]
    Encode(#[from] serde_json::Error),
}

#[derive(Debug)]
struct Inner {
    version: u64,
    tables: HashMap<TableName, Table>,
    owners: OwnerIndex,
    /// Changes that may not be durable yet, in version order.
    pending: VecDeque<(TableName, Change)>,
    /// The number of times that pending changes were undone.
    losses: u64,
}

/// A callback for each change. The store is locked during a call, so the callback must be quick and must not call the
/// store.
pub(crate) type Observer = Box<dyn Fn(&TableName, &Change) + Send + Sync>;

/// A state of the store, which a request compares with a later state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) version: u64,
    /// The number of times that changes were undone before this state.
    pub(crate) losses: u64,
}

/// The in-memory store of all objects.
pub(crate) struct Store {
    inner: Arc<Mutex<Inner>>,
    persister: Persister,
    observer: Arc<Observer>,
    /// The callback after changes were undone. The store is not locked during a call.
    on_undone: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// The objects that a list returns, and the version of the list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) version: u64,
}

impl Store {
    /// Opens a store with the objects of a storage.
    pub(crate) fn open(
        storage: Box<dyn Storage>,
        observer: Observer,
    ) -> Result<Self, StorageError> {
        let kept = storage.load()?;
        let mut inner = Inner {
            version: kept.version.max(1),
            tables: HashMap::new(),
            owners: OwnerIndex::default(),
            pending: VecDeque::new(),
            losses: 0,
        };
        for object in kept.objects {
            let (key, stored) = restore_object(&object)?;
            inner.owners.replace(&object.table, None, Some(&stored));
            inner
                .tables
                .entry(object.table)
                .or_insert_with(|| Table::new(kept.version))
                .objects
                .insert(key, stored);
        }
        restore_history(&mut inner.tables, &kept.tables, kept.past)?;
        let (inner, observer) = (Arc::new(Mutex::new(inner)), Arc::new(observer));
        let on_undone: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
        storage.on_loss(Box::new({
            let (inner, observer) = (Arc::clone(&inner), Arc::clone(&observer));
            let on_undone = Arc::clone(&on_undone);
            move |version| {
                inner.lock().undo_after(version, &observer);
                if let Some(on_undone) = on_undone.get() {
                    on_undone();
                }
            }
        }));
        Ok(Self {
            inner,
            persister: Persister::new(storage),
            observer,
            on_undone,
        })
    }

    /// Sets the callback that runs after changes were undone. Only the first call of this function has an effect.
    pub(crate) fn on_undone(&self, call: impl Fn() + Send + Sync + 'static) {
        drop(self.on_undone.set(Box::new(call)));
    }

    /// Returns all objects with their tables in any order.
    pub(crate) fn all_objects(&self) -> Vec<(TableName, Arc<Stored>)> {
        let inner = self.inner.lock();
        let tables = inner.tables.iter();
        tables
            .flat_map(|(name, t)| t.objects.values().map(|o| (name.clone(), o.clone())))
            .collect()
    }

    /// Returns a mark of the current state.
    pub(crate) fn mark(&self) -> Mark {
        let inner = self.inner.lock();
        Mark {
            version: inner.version,
            losses: inner.losses,
        }
    }

    /// Waits until all changes that a request may have read or written since a mark are durable.
    pub(crate) async fn wait_durable_since(&self, mark: Mark) -> Result<(), NotDurable> {
        let version = self.version();
        self.wait_durable(Mark { version, ..mark }).await?;
        // An undo lowers the version of the store, so the wait may succeed although changes were lost.
        if self.mark().losses == mark.losses {
            return Ok(());
        }
        Err(self.persister.loss())
    }

    /// Waits until all changes up to a mark are durable or undone.
    pub(crate) async fn wait_durable(&self, mark: Mark) -> Result<(), NotDurable> {
        self.persister.wait_durable(mark).await
    }

    /// Returns the last durable version.
    pub(crate) fn durable_version(&self) -> u64 {
        self.persister
            .durable_version()
            .unwrap_or_else(|| self.version())
    }

    /// Waits until the storage accepts changes.
    pub(crate) async fn wait_writable(&self) -> Result<(), NotDurable> {
        self.persister.wait_writable().await
    }

    /// Reports whether the storage refuses changes now.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.persister.refuses_writes()
    }

    /// Waits until the storage is closed or has failed permanently, and returns the error.
    pub(crate) async fn failure(&self) -> StorageError {
        self.persister.failure().await
    }

    /// Persists pending changes, and refuses further changes.
    pub(crate) fn close(&self) {
        self.persister.close();
    }

    /// Returns the version of the latest write.
    pub(crate) fn version(&self) -> u64 {
        self.inner.lock().version
    }

    pub(crate) fn get(&self, table: &str, key: &Key) -> Option<Arc<Stored>> {
        self.inner
            .lock()
            .tables
            .get(table)?
            .objects
            .get(key)
            .cloned()
    }

    /// Returns the current objects of a table in the order of their keys.
    pub(crate) fn list(&self, table: &str, namespace: Option<&str>) -> Page {
        let inner = self.inner.lock();
        let items = inner
            .tables
            .get(table)
            .map(|t| t.list(namespace))
            .unwrap_or_default();
        Page {
            items,
            version: inner.version,
        }
    }

    /// Returns the objects of a table at an earlier version.
    pub(crate) fn list_at(
        &self,
        table: &str,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Page, TooOld> {
        let inner = self.inner.lock();
        let items = match inner.tables.get(table) {
            Some(table) => table.list_at(namespace, version)?,
            None => Vec::new(),
        };
        Ok(Page { items, version })
    }

    /// Returns all objects of a namespace with their tables.
    pub(crate) fn namespace_contents(&self, namespace: &str) -> Vec<(TableName, Arc<Stored>)> {
        let inner = self.inner.lock();
        let mut all = Vec::new();
        for (name, table) in &inner.tables {
            all.extend(
                table
                    .list(Some(namespace))
                    .into_iter()
                    .map(|o| (name.clone(), o)),
            );
        }
        all
    }

    /// Subscribes to writes to a table. The channel contains the version of the latest write.
    pub(crate) fn subscribe(&self, table: &TableName) -> watch::Receiver<u64> {
        let mut inner = self.inner.lock();
        inner
            .tables
            .entry(table.clone())
            .or_insert_with(Table::never_written)
            .latest_version
            .subscribe()
    }

    /// Returns up to `max` changes after `version`, and the version that a reader has reached with these changes.
    pub(crate) fn changes_after(
        &self,
        table: &str,
        version: u64,
        max: usize,
    ) -> Result<(Vec<Change>, u64), TooOld> {
        let inner = self.inner.lock();
        let Some(t) = inner.tables.get(table) else {
            return Ok((Vec::new(), inner.version));
        };
        let changes = t.history.after(version, max)?;
        let upto = if changes.len() < max {
            inner.version
        } else {
            changes.last().map_or(version, Change::version)
        };
        Ok((changes, upto))
    }

    /// Creates an object.
    pub(crate) fn create(
        &self,
        table: &TableName,
        key: Key,
        value: &mut Value,
    ) -> Result<Arc<Stored>, CommitError> {
        let mut inner = self.inner.lock();
        let version = inner.version + 1;
        if inner
            .tables
            .get(table)
            .is_some_and(|t| t.objects.contains_key(&key))
        {
            return Err(CommitError::Exists);
        }
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let stored = Arc::new(Stored::new(key, version, value)?);
        self.publish(&mut inner, table, Change::Added(stored.clone()))?;
        Ok(stored)
    }

    /// Replaces an object that has the version `expected`.
    pub(crate) fn update(
        &self,
        table: &TableName,
        key: &Key,
        expected: u64,
        value: &mut Value,
    ) -> Result<Arc<Stored>, CommitError> {
        self.publish_if_current(table, key, expected, value, |old, new| Change::Modified {
            old,
            new,
        })
    }

    /// Removes an object that has the version `expected`. Watches receive `value` as the last state of the object.
    pub(crate) fn remove(
        &self,
        table: &TableName,
        key: &Key,
        expected: u64,
        value: &mut Value,
    ) -> Result<Arc<Stored>, CommitError> {
        self.publish_if_current(table, key, expected, value, |old, last| Change::Deleted {
            old,
            last,
        })
    }

    /// Publishes a change of an object that has the version `expected`.
    fn publish_if_current(
        &self,
        table: &TableName,
        key: &Key,
        expected: u64,
        value: &mut Value,
        change: impl FnOnce(Arc<Stored>, Arc<Stored>) -> Change,
    ) -> Result<Arc<Stored>, CommitError> {
        let mut inner = self.inner.lock();
        let version = inner.version + 1;
        let old = inner
            .tables
            .get(table)
            .and_then(|t| t.objects.get(key))
            .ok_or(CommitError::Gone)?
            .clone();
        if old.version != expected {
            return Err(CommitError::Stale);
        }
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let new = Arc::new(Stored::new(key.clone(), version, value)?);
        self.publish(&mut inner, table, change(old, Arc::clone(&new)))?;
        Ok(new)
    }

    /// Returns the objects that have the object with this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<ObjectLocation> {
        self.inner.lock().owners.dependents(uid)
    }

    /// Reports whether an object with this uid exists.
    pub(crate) fn uid_exists(&self, uid: &str) -> bool {
        self.inner.lock().owners.exists(uid)
    }

    /// Returns the location of the object with this uid.
    pub(crate) fn locate(&self, uid: &str) -> Option<ObjectLocation> {
        self.inner.lock().owners.locate(uid)
    }

    /// Passes a change to the storage, applies the change, and notifies the observer and the watches.
    fn publish(
        &self,
        inner: &mut Inner,
        name: &TableName,
        change: Change,
    ) -> Result<(), StorageError> {
        self.persister.persist(name, &change)?;
        if let Some(durable) = self.persister.durable_version() {
            let is_durable = |(_, change): &mut (TableName, Change)| change.version() <= durable;
            while inner.pending.pop_front_if(is_durable).is_some() {}
            inner.pending.push_back((name.clone(), change.clone()));
        }
        inner.version = change.version();
        inner.owners.replace(name, change.before(), change.after());
        let table = inner
            .tables
            .entry(name.clone())
            .or_insert_with(Table::never_written);
        table.apply(&change);
        (self.observer)(name, &change);
        table.notify(change);
        Ok(())
    }
}

impl Inner {
    /// Undoes, in memory, all changes after a version.
    fn undo_after(&mut self, version: u64, observer: &Observer) {
        let is_lost = |(_, change): &mut (TableName, Change)| change.version() > version;
        while let Some((name, change)) = self.pending.pop_back_if(is_lost) {
            let reverted = change.inverse();
            self.owners
                .replace(&name, reverted.before(), reverted.after());
            if let Some(table) = self.tables.get_mut(&name) {
                table.apply(&reverted);
                table.history.remove_latest(change.version());
            }
            observer(&name, &reverted);
        }
        self.pending.clear();
        self.version = version.max(1);
        self.losses += 1;
        // Watches that have sent undone changes must rewind.
        for table in self.tables.values() {
            table.latest_version.send_replace(self.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Volatile;

    fn store() -> Store {
        Store::open(Box::new(Volatile), Box::new(|_, _| ())).unwrap()
    }

    #[test]
    fn a_list_at_an_earlier_version_excludes_later_changes() {
        let (store, table): (_, TableName) = (store(), "things".into());
        let mut a = json!({"metadata": {"name": "a", "uid": "1"}});
        let a1 = store.create(&table, Key::new("n", "a"), &mut a).unwrap();
        let mut b = json!({"metadata": {"name": "b", "uid": "2"}});
        let b1 = store.create(&table, Key::new("n", "b"), &mut b).unwrap();
        store
            .update(&table, &a1.key, a1.version, &mut a.clone())
            .unwrap();
        store.remove(&table, &b1.key, b1.version, &mut b).unwrap();
        let then = store.list_at("things", Some("n"), b1.version).unwrap();
        let versions: Vec<u64> = then.items.iter().map(|o| o.version).collect();
        assert_eq!(versions, [a1.version, b1.version]);
        assert_eq!(store.list("things", None).items.len(), 1);
    }

    #[test]
    fn a_reader_from_before_the_first_object_of_a_table_misses_no_change() {
        let (store, table): (_, TableName) = (store(), "things".into());
        let listed = store.list("things", None).version;
        let mut other = json!({"metadata": {"name": "o"}});
        store
            .create(&"others".into(), Key::new("n", "o"), &mut other)
            .unwrap();
        let watching = store.subscribe(&table);
        assert!(
            store
                .changes_after("things", listed, 10)
                .unwrap()
                .0
                .is_empty()
        );
        drop(watching);
        let (first, mut value): (TableName, _) = ("firsts".into(), other);
        let created = store
            .create(&first, Key::new("n", "o"), &mut value)
            .unwrap();
        let (changes, upto) = store.changes_after("firsts", listed, 10).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(upto, created.version);
    }

    #[test]
    fn a_reader_behind_the_history_gets_an_error() {
        let (store, table): (_, TableName) = (store(), "things".into());
        let mut value = json!({"metadata": {"name": "a"}});
        let mut at = store
            .create(&table, Key::new("", "a"), &mut value)
            .unwrap()
            .version;
        for _ in 0..9000 {
            at = store
                .update(&table, &Key::new("", "a"), at, &mut value)
                .unwrap()
                .version;
        }
        assert_eq!(store.changes_after("things", 2, 10).unwrap_err(), TooOld);
        assert_eq!(
            store.changes_after("things", at - 1, 10).unwrap().0.len(),
            1
        );
    }
}
