//! The storage of the API servers: a data folder, or memory.

use std::path::Path;

use berth_apiserver::{DataDir, DataDirError, Durability, ServerConfig};

/// The storage of all API servers: a data folder, or memory for `None`.
#[derive(Clone, Debug)]
pub struct Storage(Option<DataDir>);

impl Storage {
    /// Returns storage that is lost when the process ends.
    pub const fn in_memory() -> Self {
        Self(None)
    }

    /// Opens a data folder.
    ///
    /// # Errors
    /// Fails if the data folder cannot be used.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, DataDirError> {
        Ok(Self(Some(DataDir::open(path, durability)?)))
    }

    /// Returns the configuration of the server `name`, with its stored objects and credentials.
    ///
    /// # Errors
    /// Fails if the stored data cannot be read.
    pub fn server(&self, name: &str) -> Result<ServerConfig, DataDirError> {
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
