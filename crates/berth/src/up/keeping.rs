//! Where the servers of `berth up` keep what they are told.

use std::path::PathBuf;

use berth_apiserver::{DataDir, DataDirError, Durability, ServerConfig};
use clap::Args;

/// Flags that say where.
#[derive(Args, Clone, Debug, Default)]
pub struct Keeping {
    /// Keep everything in this folder, so that the next start goes on with it; without it everything is gone at the
    /// end
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Wait for the disk before a write is acknowledged: then it survives a loss of power, too
    #[arg(long, requires = "data_dir")]
    pub fsync: bool,
}

/// Where, made ready.
#[derive(Clone, Debug)]
pub(crate) struct Place(Option<DataDir>);

impl Keeping {
    /// Takes the folder into use, if there is to be one.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(&self) -> Result<Place, DataDirError> {
        let durability = if self.fsync {
            Durability::PowerLoss
        } else {
            Durability::ProcessEnd
        };
        let path = self.data_dir.as_deref();
        let data = path.map(|path| DataDir::open(path, durability));
        Ok(Place(data.transpose()?))
    }

    /// In a few words.
    pub(super) fn describe(&self) -> String {
        let Some(path) = &self.data_dir else {
            return "in memory, gone when it ends".to_owned();
        };
        // Who asks for the status may be in another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let waits = if self.fsync {
            ", waits for the disk"
        } else {
            ""
        };
        format!("{}{waits}", path.display())
    }
}

impl Place {
    /// What the server of this name is started from, as far as it is about keeping.
    ///
    /// # Errors
    /// When what it kept cannot be read.
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
