//! The record of a running `berth up`: a file through which other `berth` commands find its process and its servers.
//!
//! The file is next to the kubeconfig. `berth up` holds a lock on the file while it runs. A file without a lock is
//! stale, because its process was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The content of the record: a description of a running `berth up`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub process: i32,
    /// URL of the API server. It is empty until the API server is ready.
    #[serde(default)]
    pub api_server: String,
    /// URL of the scheduler's debug endpoints. It is empty without a scheduler.
    #[serde(default)]
    pub scheduler: String,
    /// Start time, in RFC 3339.
    pub since: String,
    /// Path of the kubeconfig.
    pub kubeconfig: PathBuf,
    /// Description of the storage, for people.
    #[serde(default)]
    pub store: String,
    /// Names of the components besides the API server.
    #[serde(default)]
    pub components: Vec<String>,
}

/// An error of claiming, reading or writing a record.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another `berth up` runs with the kubeconfig.
    #[error("{}", already_running(.0))]
    Runs(Box<Record>),
    /// The file cannot be read or written.
    #[error("cannot use {path}: {source}", path = .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

fn already_running(record: &Record) -> String {
    let state = if record.api_server.is_empty() {
        "is starting".to_owned()
    } else {
        format!("is already running at {}", record.api_server)
    };
    format!(
        "a `berth up` with the kubeconfig {} {state} (process {}, since {}); `berth status` shows it, `berth down` stops it; \
        to run a second one, pass another --kubeconfig, and another --data-dir if there is one",
        record.kubeconfig.display(),
        record.process,
        record.since
    )
}

/// Returns the path of the record for a kubeconfig.
fn record_path(kubeconfig: &Path) -> PathBuf {
    let mut path = kubeconfig.as_os_str().to_owned();
    path.push(".up");
    path.into()
}

/// The exclusive right to run `berth up` with a kubeconfig. Dropping the claim removes the record.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Claims a kubeconfig. The folder of the kubeconfig must exist.
    ///
    /// # Errors
    /// Fails if another process has claimed the kubeconfig, or if the record cannot be opened.
    pub fn take(kubeconfig: &Path) -> Result<Self, InstanceError> {
        let path = record_path(kubeconfig);
        let unusable = |source| InstanceError::File {
            path: path.clone(),
            source,
        };
        loop {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&path)
                .map_err(unusable)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let record = read(&mut file).map_err(unusable)?;
                    return Err(InstanceError::Runs(Box::new(record.unwrap_or_default())));
                }
                Err(TryLockError::Error(source)) => return Err(unusable(source)),
            }
            // The previous process may have removed the file after it was opened here and before it was locked.
            let ours = file.metadata().map_err(unusable)?.ino();
            if std::fs::metadata(&path).is_ok_and(|current| current.ino() == ours) {
                return Ok(Self { file, path });
            }
        }
    }

    /// Replaces the content of the record.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<(), InstanceError> {
        let text = serde_json::to_string_pretty(record).map_err(io::Error::other);
        text.and_then(|text| {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())
        })
        .map_err(|source| InstanceError::File {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove the record");
        }
    }
}

/// Returns the record of the `berth up` that runs with a kubeconfig, or `None` if no `berth up` runs with it. The
/// record has default values until the process has written it.
///
/// # Errors
/// Fails if the record cannot be read.
pub fn find(kubeconfig: &Path) -> Result<Option<Record>, InstanceError> {
    let path = record_path(kubeconfig);
    let unusable = |source| InstanceError::File {
        path: path.clone(),
        source,
    };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(unusable(source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            Ok(Some(read(&mut file).map_err(unusable)?.unwrap_or_default()))
        }
        Err(TryLockError::Error(source)) => Err(unusable(source)),
    }
}

/// Reads the record. Returns `None` while the process writes it.
fn read(file: &mut File) -> io::Result<Option<Record>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_can_be_claimed_once_and_dropping_the_claim_removes_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        assert_eq!(find(&kubeconfig).unwrap(), None);
        let mut claim = Claim::take(&kubeconfig).unwrap();
        assert_eq!(find(&kubeconfig).unwrap(), Some(Record::default()));
        let record = Record {
            process: 42,
            api_server: "https://127.0.0.1:1".to_owned(),
            ..Record::default()
        };
        claim.write(&record).unwrap();
        assert_eq!(find(&kubeconfig).unwrap(), Some(record));
        let refused = Claim::take(&kubeconfig).unwrap_err().to_string();
        assert!(
            refused.contains("https://127.0.0.1:1") && refused.contains("process 42"),
            "{refused}"
        );
        drop(claim);
        assert_eq!(find(&kubeconfig).unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_record_of_a_killed_process_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(record_path(&kubeconfig), "{\"version\": \"0\"").unwrap();
        assert_eq!(find(&kubeconfig).unwrap(), None);
        drop(Claim::take(&kubeconfig).unwrap());
    }
}
