//! Hands changes to the storage, and knows how far it is.

use tokio::sync::watch;

use super::{Change, Mark, Stored, TableName};
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

    /// Waits until everything up to a mark is kept, or cannot be.
    pub(super) async fn kept(&self, mark: Mark) -> Result<(), Unkept> {
        let Some(mut progress) = self.progress.clone() else {
            return Ok(());
        };
        let settled = |p: &Progress| p.losses > mark.losses || p.kept >= mark.version;
        match progress.wait_for(settled).await.as_deref() {
            Ok(now) if now.losses > mark.losses => Err(lost(now)),
            Ok(_) => Ok(()),
            Err(_) => Err(Unkept::Closed(closed())),
        }
    }

    /// Returns why changes were undone.
    pub(super) fn lost(&self) -> Unkept {
        match &self.progress {
            Some(progress) => lost(&progress.borrow()),
            None => Unkept::Closed(closed()),
        }
    }

    /// Returns the last version that is kept; none where nothing is.
    pub(super) fn kept_version(&self) -> Option<u64> {
        self.progress
            .as_ref()
            .map(|progress| progress.borrow().kept)
    }

    /// Reports whether changes are refused now.
    pub(super) fn refuses(&self) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|progress| progress.borrow().refusing.is_some())
    }

    /// Waits until changes are accepted.
    pub(super) async fn accepts(&self) -> Result<(), Unkept> {
        let Some(mut progress) = self.progress.clone() else {
            return Ok(());
        };
        match progress.wait_for(|now| now.refusing.is_none()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Unkept::Closed(closed())),
        }
    }

    /// Why the storage has ended; waits until that is so.
    pub(super) async fn failure(&self) -> StorageError {
        let Some(mut progress) = self.progress.clone() else {
            return std::future::pending().await;
        };
        while progress.changed().await.is_ok() {}
        closed()
    }

    /// Keeps what was written; what comes later is refused.
    pub(super) fn close(&self) {
        self.storage.close();
    }

    /// Hands a change to the storage. Called with the store locked, so that the order is that of the versions.
    pub(super) fn keep(&self, table: &TableName, change: &Change) -> Result<(), StorageError> {
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

/// Why something that was seen is not kept.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Unkept {
    /// It was undone, and others may be accepted later.
    #[error(transparent)]
    Lost(StorageError),
    /// The storage has ended.
    #[error(transparent)]
    Closed(StorageError),
}

fn lost(now: &Progress) -> Unkept {
    // It may have been repaired since.
    let unknown = || StorageError("changes could not be kept: try again".to_owned());
    Unkept::Lost(now.refusing.clone().unwrap_or_else(unknown))
}

fn closed() -> StorageError {
    StorageError("the storage is closed".to_owned())
}
