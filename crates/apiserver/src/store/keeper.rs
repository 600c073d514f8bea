//! Hands changes to the storage, and knows how far it is.

use tokio::sync::watch;

use super::{Change, Stored, TableName};
use crate::storage::{Progress, Record, Storage, StorageError, Written};

/// See the module documentation.
pub(super) struct Keeper {
    storage: Box<dyn Storage>,
    /// How far the storage is; none where nothing is kept.
    progress: Option<watch::Receiver<Progress>>,
}

impl Keeper {
    pub(super) fn new(storage: Box<dyn Storage>) -> Self {
        Self {
            progress: storage.progress(),
            storage,
        }
    }

    /// Waits until everything up to a version is kept, or cannot be.
    pub(super) async fn kept(&self, version: u64) -> Result<(), StorageError> {
        let Some(mut progress) = self.progress.clone() else {
            return Ok(());
        };
        let settled = |p: &Progress| match p {
            Progress::UpTo(kept) => *kept >= version,
            Progress::Failed(_) => true,
        };
        match progress.wait_for(settled).await.as_deref() {
            Ok(Progress::UpTo(_)) => Ok(()),
            Ok(Progress::Failed(error)) => Err(error.clone()),
            Err(_) => Err(closed()),
        }
    }

    /// Why changes are not kept any more; waits until that is so.
    pub(super) async fn failure(&self) -> StorageError {
        let Some(mut progress) = self.progress.clone() else {
            return std::future::pending().await;
        };
        let failed = |p: &Progress| matches!(p, Progress::Failed(_));
        match progress.wait_for(failed).await.as_deref() {
            Ok(Progress::Failed(error)) => error.clone(),
            _ => closed(),
        }
    }

    /// Keeps what was written; what comes later is refused.
    pub(super) fn close(&self) {
        self.storage.close();
    }

    /// Hands a change to the storage. Called with the store locked, so that the order is that of the versions.
    pub(super) fn keep(&self, table: &TableName, change: &Change) -> Result<(), StorageError> {
        let Some(progress) = &self.progress else {
            return Ok(());
        };
        if progress.has_changed().is_err() {
            return Err(closed());
        }
        if let Progress::Failed(error) = &*progress.borrow() {
            return Err(error.clone());
        }
        let bytes = |stored: &Stored| stored.bytes.clone();
        let current = change.current();
        self.storage.write(Record {
            table: table.clone(),
            namespace: current.key.namespace.clone(),
            name: current.key.name.clone(),
            version: current.version,
            written: match change {
                Change::Added(new) => Written::Created { object: bytes(new) },
                Change::Modified { old, new } => Written::Replaced {
                    before: bytes(old),
                    object: bytes(new),
                },
                Change::Deleted { old, last } => Written::Removed {
                    before: bytes(old),
                    last: bytes(last),
                },
            },
        });
        Ok(())
    }
}

fn closed() -> StorageError {
    StorageError("the storage is closed".to_owned())
}
