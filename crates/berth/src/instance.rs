//! A `berth up` that runs, as other `berth` commands find it: a record beside its kubeconfig, locked for as long
//! as it runs. The lock says whether it runs, the record says where; a record without a lock is left over.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a `berth up` tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its version.
    pub version: String,
    /// Its process.
    pub process: i32,
    /// The URL of the API server; empty until it is ready.
    #[serde(default)]
    pub api_server: String,
    /// When it was started, in RFC 3339.
    pub since: String,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// Where its objects are.
    #[serde(default)]
    pub store: String,
    /// What runs in it besides the API server.
    #[serde(default)]
    pub components: Vec<String>,
}

/// Why the record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Somebody else holds it.
    #[error("{}", already(.0))]
    Runs(Box<Record>),
    /// It cannot be read or written.
    #[error("cannot use {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn already(record: &Record) -> String {
    let place = if record.api_server.is_empty() {
        "is starting".to_owned()
    } else {
        format!("runs already at {}", record.api_server)
    };
    format!(
        "a `berth up` with the kubeconfig {} {place} (process {}, since {}); `berth status` shows it, `berth down` stops it, \
         and a second one needs a --kubeconfig of its own (with --data-dir, that too)",
        record.kubeconfig.display(),
        record.process,
        record.since
    )
}

/// The file of the record.
fn beside(kubeconfig: &Path) -> PathBuf {
    let mut path = kubeconfig.as_os_str().to_owned();
    path.push(".up");
    path.into()
}

/// The right to be the `berth up` of a kubeconfig. The record goes with it.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Claims a kubeconfig, whose folder is there.
    ///
    /// # Errors
    /// When somebody else has it, or the file cannot be used.
    pub fn take(kubeconfig: &Path) -> Result<Self, InstanceError> {
        let path = beside(kubeconfig);
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
            // Whoever had it before may have removed the file after we opened it.
            let ours = file.metadata().map_err(unusable)?.ino();
            if std::fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                return Ok(Self { file, path });
            }
        }
    }

    /// Tells others about this `berth up`.
    ///
    /// # Errors
    /// When the disk refuses it.
    pub fn tell(&mut self, record: &Record) -> Result<(), InstanceError> {
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
            tracing::debug!(%error, path = %self.path.display(), "a record is left over");
        }
    }
}

/// The `berth up` of a kubeconfig, if one runs. It may not have told anything about itself yet.
///
/// # Errors
/// When its record cannot be read.
pub fn find(kubeconfig: &Path) -> Result<Option<Record>, InstanceError> {
    let path = beside(kubeconfig);
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

/// None while it is being written.
fn read(file: &mut File) -> io::Result<Option<Record>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
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
        claim.tell(&record).unwrap();
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
    fn what_a_killed_process_left_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(beside(&kubeconfig), "{\"version\": \"0\"").unwrap();
        assert_eq!(find(&kubeconfig).unwrap(), None);
        drop(Claim::take(&kubeconfig).unwrap());
    }
}
