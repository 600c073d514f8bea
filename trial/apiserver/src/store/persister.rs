//! The connection between the in-memory store and its storage.

use tokio::sync::watch;

use super::{Change, Mark, Stored, TableName};
use crate::storage::{Progress, Record, Storage, StorageError, Written};

/// The storage of a store, and its progress.
pub(super) struct Persister {
    storage: Box<dyn Storage>,
    /// The progress, or `None` for a storage that persists nothing.
    progress: Option<watch::Receiver<Progress>>,
}

impl Persister {
    pub(super) fn new(storage: Box<dyn Storage>) -> Self {
        Self {
            progress: storage.progress(),
            storage,
        }
    }

    /// Waits until all changes up to a mark are durable or undone.
    pub(super) async fn wait_durable(&self, mark: Mark) -> Result<(), NotDurable> {
        let Some(mut progress) = self.progress.clone() else {
            return Ok(());
        };
        let settled = |p: &Progress| p.losses > mark.losses || p.kept >= mark.version;
        match progress.wait_for(settled).await.as_deref() {
            Ok(now) if now.losses > mark.losses => Err(loss(now)),
            Ok(_) => Ok(()),
            Err(_) => Err(NotDurable::Closed(closed())),
        }
    }

    /// Returns the reason for which changes were undone.
    pub(super) fn loss(&self) -> NotDurable {
        match &self.progress {
            Some(progress) => loss(&progress.borrow()),
            None => NotDurable::Closed(closed()),
        }
    }

    /// Returns the last durable version, or `None` for a storage that persists nothing.
    pub(super) fn durable_version(&self) -> Option<u64> {
        self.progress
            .as_ref()
            .map(|progress| progress.borrow().kept)
    }

    /// Reports whether the storage refuses changes now.
    pub(super) fn refuses_writes(&self) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|progress| progress.borrow().refusing.is_some())
    }

    /// Waits until the storage accepts changes.
    pub(super) async fn wait_writable(&self) -> Result<(), NotDurable> {
        let Some(mut progress) = self.progress.clone() else {
            return Ok(());
        };
        match progress.wait_for(|now| now.refusing.is_none()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(NotDurable::Closed(closed())),
        }
    }

    /// Waits until the storage is closed or has failed permanently, and returns the error.
    pub(super) async fn failure(&self) -> StorageError {
        let Some(mut progress) = self.progress.clone() else {
            return std::future::pending().await;
        };
        while progress.changed().await.is_ok() {}
        closed()
    }

    /// Persists pending changes, and refuses further changes.
    pub(super) fn close(&self) {
        self.storage.close();
    }

    /// Passes a change to the storage. The caller has locked the store, so that changes arrive in version order.
    pub(super) fn persist(&self, table: &TableName, change: &Change) -> Result<(), StorageError> {
        if self.progress.is_none() {
            return Ok(());
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
        })
    }
}

/// The reason for which a change is not durable.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NotDurable {
    /// The change was undone. The storage may accept changes later.
    #[error(transparent)]
    Lost(StorageError),
    /// The storage is closed or has failed permanently.
    #[error(transparent)]
    Closed(StorageError),
}

fn loss(now: &Progress) -> NotDurable {
    // The reason is unknown if the storage has recovered since the loss.
    let unknown = || StorageError("changes could not be kept: try again".to_owned());
    NotDurable::Lost(now.refusing.clone().unwrap_or_else(unknown))
}

fn closed() -> StorageError {
    StorageError("the storage is closed".to_owned())
}
