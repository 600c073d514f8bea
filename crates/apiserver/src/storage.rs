//! Where objects outlive the process, if they do. The in-memory [`crate::store`] is the source of every read; a
//! [`Storage`] gets each change in version order, and reports up to which version it has kept them. Nothing
//! leaves the server before it is kept; changes that cannot be kept are undone in memory, as if they had never been.
//!
//! It knows places, versions and bytes; it must not know kinds, or who asked.

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

/// One change to keep.
#[derive(Debug, Clone)]
pub struct Record {
    /// The table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The version of the write: one more than that of the record before.
    pub version: u64,
    /// What was written.
    pub written: Written,
}

/// What a write did to an object, as JSON.
#[derive(Debug, Clone)]
pub enum Written {
    /// It was not there before.
    Created {
        /// The object.
        object: Bytes,
    },
    /// It was different before.
    Replaced {
        /// The object before.
        before: Bytes,
        /// The object now.
        object: Bytes,
    },
    /// It is gone.
    Removed {
        /// The object before.
        before: Bytes,
        /// Its last state, as watches are told it.
        last: Bytes,
    },
}

/// One object as it is kept.
#[derive(Debug, Clone)]
pub struct Object {
    /// The table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The version of its latest write.
    pub version: u64,
    /// The object as JSON.
    pub bytes: Bytes,
}

/// A change of the past, as what it takes to undo it.
#[derive(Debug, Clone)]
pub struct Past {
    /// The table, `pods` or `deployments.apps`.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The version of the write.
    pub version: u64,
    /// What was there before.
    pub undone: Undone,
}

/// What was there before a write, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// Nothing: the write made the object.
    Created,
    /// Another state of the object.
    Replaced {
        /// The object before.
        before: Bytes,
    },
    /// The object: the write removed it.
    Removed {
        /// The object before.
        before: Bytes,
        /// Its last state, as watches are told it.
        last: Bytes,
    },
}

/// Everything that is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The version of the latest write, deletes included.
    pub version: u64,
    /// The objects, in any order.
    pub objects: Vec<Object>,
    /// For each table the version of its latest write, deletes included.
    pub tables: Vec<(Arc<str>, u64)>,
    /// The latest changes, up to `version`, in order and without a gap; none where none are known.
    pub past: Vec<Past>,
}

/// How far a storage has come.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// All changes up to this version are kept.
    pub kept: u64,
    /// How often changes could not be kept, and were undone.
    pub losses: u64,
    /// Why no change is accepted now, if none is.
    pub refusing: Option<StorageError>,
}

/// Undoes all changes after a version, so that the next one follows that version again.
pub type Undo = Box<dyn Fn(u64) + Send + Sync>;

/// Why changes cannot be kept, or what was kept cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StorageError(pub String);

/// The durable side of the store.
pub trait Storage: Send + Sync + 'static {
    /// Everything kept. Called once, at start.
    fn load(&self) -> Result<Kept, StorageError>;
    /// Takes what undoes changes that cannot be kept. Called once, before the first change.
    ///
    /// When changes cannot be kept, the storage first refuses others, then undoes all that are not kept, and then
    /// reports one more loss.
    fn on_loss(&self, undo: Undo);
    /// Takes one change to keep; returns at once. Called in version order.
    ///
    /// # Errors
    /// When no changes are accepted now.
    fn write(&self, record: Record) -> Result<(), StorageError>;
    /// Follows what is kept; `None` where nothing is, so that no request waits for it. Closed when the storage has ended.
    fn progress(&self) -> Option<watch::Receiver<Progress>>;
    /// Keeps what was taken, and lets go of files and locks. Changes that come later are not kept.
    fn close(&self);
}

/// Keeps nothing: the objects live as long as the process.
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
