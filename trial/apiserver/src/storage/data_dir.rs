//! The data folder of a process: its format, its lock, and the storages of the servers in the process.
//!
//! ```text
//! berth-data.json          marks the folder as a data folder, and contains its format
//! lock                     locked while the folder is in use; contains the process id
//! NAME/objects.redb        the objects of the server NAME
//! NAME/changes*.log        the journal of recent changes of these objects
//! NAME/credentials/        the keys, certificates and token of the server NAME
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StorageError;
use super::database::Durability;
use super::durable::Durable;

const MARK: &str = "berth-data.json";
const DRAFT: &str = ".berth-data.json";
const LOCK: &str = "lock";
/// The current format of the data. The number increases when an older program would misread the data.
const FORMAT: u64 = 1;

/// The content of the file that marks a data folder.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    format: u64,
}

/// An error of using a data folder.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process uses the folder.
    #[error("{} is in use by another process{}: stop that process, or choose another folder", .path.display(), named(*.process))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The id of the other process.
        process: Option<u32>,
    },
    /// The folder contains other files, and no valid file that marks it as a data folder.
    #[error("{} contains other files and is no data folder: choose an empty folder", .0.display())]
    NotOurs(PathBuf),
    /// A newer program wrote the folder.
    #[error("{} has format {format}, and this program supports formats up to {FORMAT}: use a newer program", .path.display())]
    Newer {
        /// The folder.
        path: PathBuf,
        /// The format of the folder.
        format: u64,
    },
    /// The folder or a file in it cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The folder or a file in it.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The contents of a storage in the folder cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn named(process: Option<u32>) -> String {
    process.map_or_else(String::new, |id| format!(" ({id})"))
}

/// A data folder that this process has locked. The lock is released when this value, its clones and its storages are
/// dropped.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
    lock: Arc<File>,
    durability: Durability,
}

impl DataDir {
    /// Opens and locks a folder. Creates the folder if it is missing.
    ///
    /// # Errors
    /// Returns an error if the folder is in use, has other files or a newer format, or cannot be written.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Io {
            path: path.to_owned(),
            source,
        };
        private_folder(path).map_err(failed)?;
        let marked = path.join(MARK).exists();
        if !marked && has_other_files(path).map_err(failed)? {
            return Err(DataDirError::NotOurs(path.to_owned()));
        }
        let lock = lock(path)?;
        if marked {
            check_mark(path)?;
        } else {
            write_mark(path).map_err(failed)?;
        }
        Ok(Self {
            path: path.to_owned(),
            lock: Arc::new(lock),
            durability,
        })
    }

    /// Opens the storage of a server, and returns the storage and the folder for the server's credentials. The name of
    /// the server is a path below the data folder.
    ///
    /// # Errors
    /// Returns an error if the objects cannot be read, or the name is a path outside of the data folder.
    pub fn server(&self, name: &str) -> Result<(Durable, PathBuf), DataDirError> {
        let folder = self.path.join(name);
        let below = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let created = if below {
            private_folder(&folder)
        } else {
            Err(io::Error::from(io::ErrorKind::InvalidInput))
        };
        created.map_err(|source| DataDirError::Io {
            path: folder.clone(),
            source,
        })?;
        let objects = Durable::open(
            &folder.join("objects.redb"),
            self.durability,
            self.lock.clone(),
        )?;
        Ok((objects, folder.join("credentials")))
    }
}

fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Reports whether an unmarked folder has files of another program. A process that was killed before it wrote the mark
/// leaves only the lock file and the draft of the mark.
fn has_other_files(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name != DRAFT {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lock(folder: &Path) -> Result<File, DataDirError> {
    let path = folder.join(LOCK);
    let failed = |source| DataDirError::Io {
        path: path.clone(),
        source,
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            return Err(DataDirError::InUse {
                path: folder.to_owned(),
                process: read.ok().and_then(|_| text.trim().parse().ok()),
            });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(file)
}

fn check_mark(folder: &Path) -> Result<(), DataDirError> {
    let path = folder.join(MARK);
    let text = fs::read_to_string(&path).map_err(|source| DataDirError::Io {
        path: path.clone(),
        source,
    })?;
    match serde_json::from_str::<Mark>(&text) {
        Ok(mark) if mark.format <= FORMAT => Ok(()),
        Ok(mark) => Err(DataDirError::Newer {
            path: folder.to_owned(),
            format: mark.format,
        }),
        Err(_) => Err(DataDirError::NotOurs(folder.to_owned())),
    }
}

/// Atomically writes the file that marks the folder.
fn write_mark(folder: &Path) -> io::Result<()> {
    let draft = folder.join(DRAFT);
    let mut file = File::create(&draft)?;
    serde_json::to_writer(&mut file, &Mark { format: FORMAT })?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(MARK))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::storage::{Record, Storage as _, Written};

    fn open(path: &Path) -> Result<DataDir, String> {
        DataDir::open(path, Durability::ProcessEnd).map_err(|e| e.to_string())
    }

    #[test]
    fn a_folder_is_used_by_one_process_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/data");
        let first = open(&path).unwrap();
        let refused = open(&path).unwrap_err();
        let id = std::process::id();
        assert!(
            refused.contains(&format!("in use by another process ({id})")),
            "{refused}"
        );
        assert!(first.server("../elsewhere").is_err());
        let (storage, _) = first.server("some/one").unwrap();
        drop(first);
        assert!(
            open(&path).is_err(),
            "an open storage keeps the folder locked"
        );
        drop(storage);
        open(&path).unwrap();
    }

    #[test]
    fn foreign_and_newer_folders_are_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("thesis.txt"), "").unwrap();
        let refused = open(home.path()).unwrap_err();
        assert!(refused.contains("choose an empty folder"), "{refused}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);

        let path = home.path().join("data");
        drop(open(&path).unwrap());
        fs::write(path.join(MARK), r#"{"format": 2, "more": true}"#).unwrap();
        let refused = open(&path).unwrap_err();
        assert!(
            refused.contains("has format 2") && refused.contains("up to 1"),
            "{refused}"
        );

        let refused = open(&home.path().join("thesis.txt")).unwrap_err();
        assert!(refused.contains("thesis.txt"), "{refused}");
    }

    #[test]
    fn a_folder_with_only_a_lock_file_and_a_draft_of_the_mark_is_usable() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(LOCK), "1\n").unwrap();
        fs::write(home.path().join(DRAFT), "{").unwrap();
        open(home.path()).unwrap();
        open(home.path()).unwrap();
    }

    #[test]
    fn a_missing_or_empty_database_file_is_refused_if_a_journal_exists() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("data");
        let folder = open(&path).unwrap();
        let (storage, _) = folder.server("one").unwrap();
        let record = Record {
            table: "things".into(),
            namespace: "n".into(),
            name: "a".into(),
            version: 2,
            written: Written::Created {
                object: Bytes::from_static(b"{}"),
            },
        };
        storage.write(record).unwrap();
        storage.close();
        let objects = path.join("one/objects.redb");
        let kept = fs::read(&objects).unwrap();
        let lose: [fn(&Path); 2] = [
            |path| fs::write(path, "").unwrap(),
            |path| fs::remove_file(path).unwrap(),
        ];
        for lose in lose {
            lose(&objects);
            let refused = folder.server("one").map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("missing or empty"), "{refused}");
        }
        fs::write(&objects, kept).unwrap();
        let (storage, _) = folder.server("one").unwrap();
        assert_eq!(storage.load().unwrap().version, 2);
    }
}
