//! Persistence of the store: the [`Storage`] trait, an implementation in files that survives a restart, and an
//! implementation that persists nothing.
//!
//! The in-memory `store` serves all reads. A [`Storage`] receives each change in version order, and reports the last
//! durable version. A response waits until the versions that the request has read or written are durable. Changes that
//! cannot be persisted are undone in memory. A storage must not know kinds or requests.

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

/// A change that the storage persists.
#[derive(Debug, Clone)]
pub struct Record {
    /// Name of the table, for example `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// Version of the write, which is the version of the previous write plus one.
    pub version: u64,
    /// The effect of the write.
    pub written: Written,
}

/// The effect of a write on an object. The objects are JSON.
#[derive(Debug, Clone)]
pub enum Written {
    /// The write created the object.
    Created {
        /// The new object.
        object: Bytes,
    },
    /// The write replaced the object.
    Replaced {
        /// The object before the write.
        before: Bytes,
        /// The object after the write.
        object: Bytes,
    },
    /// The write removed the object.
    Removed {
        /// The object before the write.
        before: Bytes,
        /// The last state of the object, which watches receive.
        last: Bytes,
    },
}

/// A persisted object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Name of the table, for example `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// Version of the latest write to the object.
    pub version: u64,
    /// The object as JSON.
    pub bytes: Bytes,
}

/// A past change, in a form that can be undone.
#[derive(Debug, Clone)]
pub struct Past {
    /// Name of the table, for example `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// The version of the write.
    pub version: u64,
    /// The state before the write.
    pub undone: Undone,
}

/// The state of an object before a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// There was no object, because the write created it.
    Created,
    /// There was an object, which the write replaced.
    Replaced {
        /// The object before the write.
        before: Bytes,
    },
    /// There was an object, which the write removed.
    Removed {
        /// The object before the write.
        before: Bytes,
        /// The last state of the object, which watches receive.
        last: Bytes,
    },
}

/// The persisted contents of a storage.
#[derive(Debug, Default)]
pub struct Kept {
    /// Version of the latest write, including deletes.
    pub version: u64,
    /// The objects in any order.
    pub objects: Vec<Object>,
    /// Version of the latest write to each table, including deletes.
    pub tables: Vec<(Arc<str>, u64)>,
    /// The latest changes up to `version`, in version order and without gaps.
    pub past: Vec<Past>,
}

/// The progress of a storage.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The last durable version.
    pub kept: u64,
    /// The number of times that the storage called [`Undo`] for changes that it could not persist.
    pub losses: u64,
    /// The reason for which the storage refuses changes, if it does.
    pub refusing: Option<StorageError>,
}

/// A callback that undoes all changes in the store after a version.
pub type Undo = Box<dyn Fn(u64) + Send + Sync>;

/// An error of a storage, with its message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StorageError(pub String);

/// A storage that persists the changes of a store.
pub trait Storage: Send + Sync + 'static {
    /// Loads the persisted contents. The store calls this method once at its start.
    fn load(&self) -> Result<Kept, StorageError>;
    /// Sets the callback that undoes changes. The store calls this method once, before the first change.
    ///
    /// If a storage cannot persist changes, the storage first refuses further changes. Then it calls the callback to
    /// undo all changes that are not durable. Then it increments [`Progress::losses`].
    fn on_loss(&self, undo: Undo);
    /// Accepts a change, and returns without waiting for the disk. The store calls this method in version order.
    ///
    /// # Errors
    /// Returns an error while the storage refuses changes.
    fn write(&self, record: Record) -> Result<(), StorageError>;
    /// Returns the progress, or `None` if the storage persists nothing, so that no request waits. The channel closes
    /// when the storage closes.
    fn progress(&self) -> Option<watch::Receiver<Progress>>;
    /// Persists the accepted changes, and releases files and locks. Later changes are refused or ignored.
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
