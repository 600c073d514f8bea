//! Storage that survives a restart: the trait, its implementation in files, and one that keeps nothing.
//!
//! The in-memory `store` serves all reads. A [`Storage`] receives each change in version order and reports the last
//! durable version. Responses wait for it; changes that cannot be persisted are undone in memory. A storage must not know
//! kinds or requests.

pub(crate) mod data_dir;
mod database;
pub(crate) mod durable;
#[cfg(test)]
mod faults;
mod journal;

use std::sync::Arc;

use bytes::Bytes;
pub use database::Durability;
use tokio::sync::watch;

/// A change to persist.
#[derive(Debug, Clone)]
pub struct Record {
    /// Table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Version of the write, the successor of the previous one.
    pub version: u64,
    /// The effect of the write.
    pub written: Written,
}

/// The effect of a write on an object. Objects are JSON.
#[derive(Debug, Clone)]
pub enum Written {
    /// The object is new.
    Created {
        /// The object.
        object: Bytes,
    },
    /// The object was replaced.
    Replaced {
        /// The object before.
        before: Bytes,
        /// The object now.
        object: Bytes,
    },
    /// The object was removed.
    Removed {
        /// The object before.
        before: Bytes,
        /// The last state, which watches receive.
        last: Bytes,
    },
}

/// A stored object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Version of the latest write.
    pub version: u64,
    /// The object as JSON.
    pub bytes: Bytes,
}

/// A past change in a form that can be undone.
#[derive(Debug, Clone)]
pub struct Past {
    /// Table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The version of the write.
    pub version: u64,
    /// The state before the write.
    pub undone: Undone,
}

/// The state of an object before a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// No object: the write created it.
    Created,
    /// Another version of the object.
    Replaced {
        /// The object before.
        before: Bytes,
    },
    /// An object that the write removed.
    Removed {
        /// The object before.
        before: Bytes,
        /// The last state, which watches receive.
        last: Bytes,
    },
}

/// The contents of a storage.
#[derive(Debug, Default)]
pub struct Kept {
    /// Version of the latest write, including deletes.
    pub version: u64,
    /// The objects, in any order.
    pub objects: Vec<Object>,
    /// Version of the latest write to each table, including deletes.
    pub tables: Vec<(Arc<str>, u64)>,
    /// The latest changes up to `version`, in order and without gaps.
    pub past: Vec<Past>,
}

/// The progress of a storage.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The last durable version.
    pub kept: u64,
    /// The number of times that changes were undone.
    pub losses: u64,
    /// Reason for refusing changes, if any.
    pub refusing: Option<StorageError>,
}

/// A callback that undoes all changes after a version.
pub type Undo = Box<dyn Fn(u64) + Send + Sync>;

/// The error of a storage.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StorageError(pub String);

/// The persistence of a store.
pub trait Storage: Send + Sync + 'static {
    /// Loads the contents. Called once at the start.
    fn load(&self) -> Result<Kept, StorageError>;
    /// Sets the callback that undoes changes. Called once, before the first change.
    ///
    /// A storage that cannot persist changes first refuses further ones, then undoes all changes that are not durable, and
    /// then reports a loss.
    fn on_loss(&self, undo: Undo);
    /// Accepts a change and returns at once. Called in version order.
    ///
    /// # Errors
    /// Returns an error while the storage refuses changes.
    fn write(&self, record: Record) -> Result<(), StorageError>;
    /// Returns the progress, or `None` if nothing is persisted and no request waits. The channel closes with the storage.
    fn progress(&self) -> Option<watch::Receiver<Progress>>;
    /// Persists accepted changes, and releases files and locks. Later changes are ignored.
    fn close(&self);
}

/// A storage that persists nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volatile;

impl Storage for Volatile {
    fn load(&self) -> Result<Kept, StorageError> {
        Ok(Kept::default())
    }

    fn on_loss(&self, _undo: Undo) {}

    fn write(&self, _record: Record) -> Result<(), StorageError> {
        Ok(())
    }

    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        None
    }

    fn close(&self) {}
}
