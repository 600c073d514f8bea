//! The flags `--data-dir` and `--fsync` of `berth up`, and the storage that they select for its API servers.

use std::path::PathBuf;

use berth_apiserver::{DataDir, DataDirError, Durability, ServerConfig};
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

/// The storage of all API servers: a data folder, or memory for `None`.
#[derive(Clone, Debug)]
pub(crate) struct Storage(Option<DataDir>);

impl PersistenceArgs {
    /// Opens the data folder, if the flags name one.
    ///
    /// # Errors
    /// Fails if the data folder cannot be used.
    pub(crate) fn open(&self) -> Result<Storage, DataDirError> {
        let durability = if self.fsync {
            Durability::PowerLoss
        } else {
            Durability::ProcessEnd
        };
        let path = self.data_dir.as_deref();
        let data = path.map(|path| DataDir::open(path, durability));
        Ok(Storage(data.transpose()?))
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

impl Storage {
    /// Returns the configuration of the server `name`, with its stored objects and credentials.
    ///
    /// # Errors
    /// Fails if the stored data cannot be read.
    pub(crate) fn server(&self, name: &str) -> Result<ServerConfig, DataDirError> {
        let Some(data) = &self.0 else {
            return Ok(ServerConfig::default());
        };
        let (objects, credentials) = data.server(name)?;
        Ok(ServerConfig {
            storage: Box::new(objects),
            credentials: Some(credentials),
            ..ServerConfig::default()
        })
    }
}
