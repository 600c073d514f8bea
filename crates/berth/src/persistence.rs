//! The flags `--data-dir` and `--fsync` of `berth up`, which select the storage of its API servers.

use std::path::PathBuf;

use berth_apiserver::{DataDirError, Durability};
use berth_up::storage::Storage;
use clap::Args;

/// Flags that select the storage.
#[derive(Args, Clone, Debug, Default)]
pub struct PersistenceArgs {
    /// Folder that keeps all objects for the next start; without it, objects are lost when the program ends
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Acknowledge writes only after they are on disk, so that they survive a power loss
    #[arg(long, requires = "data_dir")]
    pub fsync: bool,
}

impl PersistenceArgs {
    /// Opens the data folder, if the flags name one.
    ///
    /// # Errors
    /// Fails if the data folder cannot be used.
    pub(crate) fn open(&self) -> Result<Storage, DataDirError> {
        let Some(path) = &self.data_dir else {
            return Ok(Storage::in_memory());
        };
        let durability = if self.fsync {
            Durability::PowerLoss
        } else {
            Durability::ProcessEnd
        };
        Storage::open(path, durability)
    }

    /// Describes the storage for `berth status`.
    pub(crate) fn describe(&self) -> String {
        let Some(path) = &self.data_dir else {
            return "in memory, lost when `berth up` ends".to_owned();
        };
        // The path is absolute, because `berth status` may run in another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let waits = if self.fsync {
            ", waits for the disk"
        } else {
            ""
        };
        format!("{}{waits}", path.display())
    }
}
