//! Where objects outlive the process, if they do. The in-memory [`crate::store`] is the source of every read;
//! a [`Storage`] is told each change, in version order, before the change becomes visible.

use bytes::Bytes;

/// One object as it is kept.
#[derive(Debug, Clone)]
pub struct Record {
    /// The table, `pods` or `deployments.apps`.
    pub table: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version of the write.
    pub version: u64,
    /// The object as JSON; `None` when the write was a delete.
    pub object: Option<Bytes>,
}

/// Why a change could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("failed to write to storage: {0}")]
pub struct StorageError(pub String);

/// The durable side of the store.
pub trait Storage: Send + Sync + 'static {
    /// Everything kept, in any order. Called once at start.
    fn load(&self) -> Result<Vec<Record>, StorageError>;
    /// Keeps one change.
    fn write(&self, record: &Record) -> Result<(), StorageError>;
    /// False when writes are dropped, which saves building records.
    fn is_durable(&self) -> bool {
        true
    }
}

/// Keeps nothing: the objects live as long as the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volatile;

impl Storage for Volatile {
    fn load(&self) -> Result<Vec<Record>, StorageError> {
        Ok(Vec::new())
    }

    fn write(&self, _record: &Record) -> Result<(), StorageError> {
        Ok(())
    }

    fn is_durable(&self) -> bool {
        false
    }
}
