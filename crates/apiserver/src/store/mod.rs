//! The store: every object in memory, one global version counter, and the recent history per table.
//!
//! One short critical section owns all of it; the lock is never held across an await or around user code.
//! What is in memory may be ahead of what the storage has kept: [`Store::kept`] waits for it, and nothing may be
//! told to a client before.
//! It knows keys, versions and bytes, not kinds, schemas or HTTP.

mod history;
mod keeper;
mod object;
mod owners;
mod restore;
mod table;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) use history::{Change, TooOld};
use keeper::Keeper;
pub(crate) use keeper::Unkept;
pub(crate) use object::{Key, Stored};
pub(crate) use owners::Dependent;
use owners::OwnerIndex;
use restore::{remember, restored};
use table::Table;

use crate::storage::{Storage, StorageError};

/// Name of a table: `pods`, `deployments.apps`.
pub(crate) type TableName = Arc<str>;

/// Why a write did not happen.
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
    /// Changes that may not be kept yet, in order.
    pending: VecDeque<(TableName, Change)>,
    /// How often pending changes were undone.
    losses: u64,
}

/// Told of each change while the store is locked: must be quick, and must not call the store.
pub(crate) type Observer = Box<dyn Fn(&TableName, &Change) + Send + Sync>;

/// The state that a request may have read: everything up to a version, unless changes were undone since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) version: u64,
    /// How often changes had been undone.
    pub(crate) losses: u64,
}

/// See the module documentation.
pub(crate) struct Store {
    inner: Arc<Mutex<Inner>>,
    keeper: Keeper,
    observer: Arc<Observer>,
    /// Called after changes were undone, with the store unlocked.
    after_loss: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) version: u64,
}

impl Store {
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
            let (key, stored) = restored(&object)?;
            inner.owners.replace(&object.table, None, Some(&stored));
            inner
                .tables
                .entry(object.table)
                .or_insert_with(|| Table::new(kept.version))
                .objects
                .insert(key, stored);
        }
        remember(&mut inner.tables, &kept.tables, kept.past)?;
        let (inner, observer) = (Arc::new(Mutex::new(inner)), Arc::new(observer));
        let after_loss: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
        storage.on_loss(Box::new({
            let (inner, observer) = (Arc::clone(&inner), Arc::clone(&observer));
            let after_loss = Arc::clone(&after_loss);
            move |version| {
                inner.lock().undo_after(version, &observer);
                if let Some(after_loss) = after_loss.get() {
                    after_loss();
                }
            }
        }));
        Ok(Self {
            inner,
            keeper: Keeper::new(storage),
            observer,
            after_loss,
        })
    }

    /// Calls this after changes were undone, with the store unlocked. Only the first that is given counts.
    pub(crate) fn after_loss(&self, call: impl Fn() + Send + Sync + 'static) {
        drop(self.after_loss.set(Box::new(call)));
    }

    /// Every object with its table, in any order.
    pub(crate) fn everything(&self) -> Vec<(TableName, Arc<Stored>)> {
        let inner = self.inner.lock();
        let tables = inner.tables.iter();
        tables
            .flat_map(|(name, t)| t.objects.values().map(|o| (name.clone(), o.clone())))
            .collect()
    }

    /// Returns a mark for everything that can be seen now.
    pub(crate) fn mark(&self) -> Mark {
        let inner = self.inner.lock();
        Mark {
            version: inner.version,
            losses: inner.losses,
        }
    }

    /// Waits until everything that can have been seen since a mark is kept.
    pub(crate) async fn kept_since(&self, mark: Mark) -> Result<(), Unkept> {
        let version = self.version();
        // In this order: what was undone before this was not undone unnoticed.
        self.kept(Mark { version, ..mark }).await?;
        if self.mark().losses == mark.losses {
            return Ok(());
        }
        Err(self.keeper.lost())
    }

    /// Waits until everything up to a mark is kept, or cannot be.
    pub(crate) async fn kept(&self, mark: Mark) -> Result<(), Unkept> {
        self.keeper.kept(mark).await
    }

    /// Returns the last version that is kept for sure.
    pub(crate) fn kept_version(&self) -> u64 {
        self.keeper.kept_version().unwrap_or_else(|| self.version())
    }

    /// Waits until changes are accepted.
    pub(crate) async fn accepts(&self) -> Result<(), Unkept> {
        self.keeper.accepts().await
    }

    /// Reports whether changes are refused now.
    pub(crate) fn refuses(&self) -> bool {
        self.keeper.refuses()
    }

    /// Why the storage has ended; waits until that is so.
    pub(crate) async fn failure(&self) -> StorageError {
        self.keeper.failure().await
    }

    /// Keeps what was written; what comes later is refused.
    pub(crate) fn close(&self) {
        self.keeper.close();
    }

    /// The version of the latest write.
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

    /// The objects of a table, in key order, as of now.
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

    /// The objects of a table as they were at `version`.
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

    /// Number of objects in a namespace over all tables, and whether it is zero.
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

    /// A receiver that changes with each write to the table.
    pub(crate) fn subscribe(&self, table: &TableName) -> watch::Receiver<u64> {
        let mut inner = self.inner.lock();
        inner
            .tables
            .entry(table.clone())
            .or_insert_with(Table::untouched)
            .wake
            .subscribe()
    }

    /// Up to `max` changes after `version`, and the version everything is known up to.
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

    /// Replaces the object if it is still at `expected`.
    pub(crate) fn update(
        &self,
        table: &TableName,
        key: &Key,
        expected: u64,
        value: &mut Value,
    ) -> Result<Arc<Stored>, CommitError> {
        self.supersede(table, key, expected, value, |old, new| Change::Modified {
            old,
            new,
        })
    }

    /// Removes the object if it is still at `expected`; `value` is the last state clients shall see.
    pub(crate) fn remove(
        &self,
        table: &TableName,
        key: &Key,
        expected: u64,
        value: &mut Value,
    ) -> Result<Arc<Stored>, CommitError> {
        self.supersede(table, key, expected, value, |old, last| Change::Deleted {
            old,
            last,
        })
    }

    /// Publishes a change of the object from what it is, if that is still `expected`, to `value`.
    fn supersede(
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

    /// Objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Dependent> {
        self.inner.lock().owners.dependents(uid)
    }

    /// True if an object with this uid exists.
    pub(crate) fn uid_exists(&self, uid: &str) -> bool {
        self.inner.lock().owners.exists(uid)
    }

    /// Where the object with this uid is.
    pub(crate) fn locate(&self, uid: &str) -> Option<Dependent> {
        self.inner.lock().owners.locate(uid)
    }

    fn publish(
        &self,
        inner: &mut Inner,
        name: &TableName,
        change: Change,
    ) -> Result<(), StorageError> {
        self.keeper.keep(name, &change)?;
        if let Some(kept) = self.keeper.kept_version() {
            let is_kept = |(_, change): &mut (TableName, Change)| change.version() <= kept;
            while inner.pending.pop_front_if(is_kept).is_some() {}
            inner.pending.push_back((name.clone(), change.clone()));
        }
        inner.version = change.version();
        let after = match &change {
            Change::Deleted { .. } => None,
            other => Some(other.current()),
        };
        inner.owners.replace(name, change.before(), after);
        let table = inner
            .tables
            .entry(name.clone())
            .or_insert_with(Table::untouched);
        table.replace(&change);
        (self.observer)(name, &change);
        table.tell(change);
        Ok(())
    }
}

impl Inner {
    /// Undoes what was written after a version, as if it had never been.
    fn undo_after(&mut self, version: u64, observer: &Observer) {
        let is_lost = |(_, change): &mut (TableName, Change)| change.version() > version;
        while let Some((name, change)) = self.pending.pop_back_if(is_lost) {
            let back = change.inverse();
            let after = match &back {
                Change::Deleted { .. } => None,
                other => Some(other.current()),
            };
            self.owners.replace(&name, back.before(), after);
            if let Some(table) = self.tables.get_mut(&name) {
                table.replace(&back);
                table.history.forget(change.version());
            }
            observer(&name, &back);
        }
        self.pending.clear();
        self.version = version.max(1);
        self.losses += 1;
        // Watches that have gone further have to go back.
        for table in self.tables.values() {
            table.wake.send_replace(self.version);
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
    fn a_past_list_undoes_what_came_after() {
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
    fn who_listed_a_kind_before_its_first_object_has_missed_nothing() {
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
    fn a_reader_behind_the_ring_is_told() {
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
