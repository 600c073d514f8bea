//! The database file: its tables, loading all objects, and writing and reverting batches of changes.
//!
//! This module must not know the callers that wait for a batch.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _, StorageBackend};
use redb::{TableDefinition, WriteTransaction};

use super::{Kept, Object, Record, Written};

/// Key of an object: the name of its table in the store, such as `pods`, its namespace and its name.
type Location = (&'static str, &'static str, &'static str);
/// The objects, each with its version and its bytes.
const OBJECTS: TableDefinition<'_, Location, (u64, &[u8])> = TableDefinition::new("objects");
/// The version of the latest write to each table of the store.
const LATEST: TableDefinition<'_, &str, u64> = TableDefinition::new("latest");

/// Size of the page cache in bytes. The cache is small, because the in-memory store serves all reads.
const CACHE: usize = 16 << 20;

/// The failures that acknowledged writes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, for example if it is killed. Writes are in the page cache of the operating system.
    ProcessEnd,
    /// The end of the process and a power loss. Each batch waits until it is on the disk.
    PowerLoss,
}

/// A file with optional syncs. Without syncs, all writes survive a killed process, but a power loss may lose some of
/// them.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    durability: Durability,
    #[cfg(test)]
    faults: super::faults::Faults,
}

impl Disk {
    #[cfg(test)]
    fn check(&self) -> io::Result<()> {
        self.faults.check()
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "tests inject faults here"
    )]
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        match self.durability {
            Durability::ProcessEnd => Ok(()),
            Durability::PowerLoss => self.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Opens the database file, or creates one that only its owner can read and write. Each opening of an existing file
/// reads the whole file to detect damage.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Database, redb::Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let disk = Disk {
        file: FileBackend::new(options.open(path)?)?,
        durability,
        #[cfg(test)]
        faults: super::faults::of(path),
    };
    let mut builder = Builder::new();
    builder
        .set_cache_size(CACHE)
        .set_check_integrity_on_open(true);
    let database = builder.create_with_backend(disk)?;
    if durability == Durability::PowerLoss
        && let Some(folder) = path.parent()
    {
        File::open(folder)?.sync_all()?;
    }
    // Creates both database tables, because later reads need them.
    let change = database.begin_write()?;
    change.open_table(OBJECTS)?;
    change.open_table(LATEST)?;
    change.commit()?;
    Ok(database)
}

/// Reads all objects, and the latest version of each table of the store.
pub(super) fn load(database: &Database) -> Result<Kept, redb::Error> {
    let view = database.begin_read()?;
    let mut kept = Kept::default();
    let mut names: HashMap<String, Arc<str>> = HashMap::new();
    for row in view.open_table(LATEST)?.iter()? {
        let (name, version) = row?;
        let (table, version): (Arc<str>, u64) = (name.value().into(), version.value());
        names.insert(name.value().to_owned(), table.clone());
        kept.version = kept.version.max(version);
        kept.tables.push((table, version));
    }
    for row in view.open_table(OBJECTS)?.iter()? {
        let (location, object) = row?;
        let (table, namespace, name) = location.value();
        let (version, bytes) = object.value();
        kept.objects.push(Object {
            table: names.get(table).map_or_else(|| table.into(), Arc::clone),
            namespace: namespace.into(),
            name: name.into(),
            version,
            bytes: Bytes::copy_from_slice(bytes),
        });
    }
    Ok(kept)
}

/// Writes a batch atomically. Returns the version of the last change in the batch.
pub(super) fn write(database: &Database, batch: &[Record]) -> Result<Option<u64>, redb::Error> {
    let change = database.begin_write()?;
    apply(&change, batch)?;
    change.commit()?;
    Ok(batch.last().map(|record| record.version))
}

/// Reverts the changes of the last batch. `version` is the version of the database before the batch.
pub(super) fn revert(
    database: &Database,
    batch: &[Record],
    version: u64,
) -> Result<(), redb::Error> {
    let change = database.begin_write()?;
    {
        let mut objects = change.open_table(OBJECTS)?;
        let mut latest = change.open_table(LATEST)?;
        // The changes are reverted from the last to the first, so the state before the first change of an object
        // remains.
        for record in batch.iter().rev() {
            let location = (&*record.table, &*record.namespace, &*record.name);
            match &record.written {
                Written::Created { .. } => drop(objects.remove(location)?),
                // The batch does not contain the version of the earlier object, so the row gets `version`. The store
                // reads the version of the object from its JSON.
                Written::Replaced { before, .. } | Written::Removed { before, .. } => {
                    drop(objects.insert(location, (version, &**before))?);
                }
            }
            latest.insert(&*record.table, version)?;
        }
    }
    change.commit()?;
    Ok(())
}

fn apply(change: &WriteTransaction, batch: &[Record]) -> Result<(), redb::Error> {
    let mut objects = change.open_table(OBJECTS)?;
    let mut latest: HashMap<&str, u64> = HashMap::new();
    let mut done = HashSet::with_capacity(batch.len());
    // Only the last of several changes to an object is written.
    for record in batch.iter().rev() {
        latest.entry(&record.table).or_insert(record.version);
        let location = (&*record.table, &*record.namespace, &*record.name);
        if !done.insert(location) {
            continue;
        }
        match &record.written {
            Written::Created { object } | Written::Replaced { object, .. } => {
                drop(objects.insert(location, (record.version, &**object))?);
            }
            Written::Removed { .. } => drop(objects.remove(location)?),
        }
    }
    let mut table = change.open_table(LATEST)?;
    for (name, version) in latest {
        table.insert(name, version)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, version: u64, object: Option<&str>) -> Record {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let written = match object {
            Some(text) => Written::Created {
                object: bytes(text),
            },
            None => Written::Removed {
                before: bytes("old"),
                last: bytes("old"),
            },
        };
        Record {
            table: "things".into(),
            namespace: "n".into(),
            name: name.into(),
            version,
            written,
        }
    }

    #[test]
    fn the_last_change_of_an_object_in_a_batch_wins() {
        for durability in [Durability::ProcessEnd, Durability::PowerLoss] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("objects.redb");
            let database = open(&path, durability).unwrap();
            let batch = [
                record("a", 2, Some("old")),
                record("b", 3, Some("b")),
                record("a", 4, Some("new")),
                record("b", 5, None),
            ];
            assert_eq!(write(&database, &batch).unwrap(), Some(5));
            drop(database);
            let kept = load(&open(&path, durability).unwrap()).unwrap();
            assert_eq!(kept.version, 5, "the version includes the delete");
            assert_eq!(kept.tables, [("things".into(), 5)]);
            let objects = kept.objects.iter();
            let found: Vec<_> = objects.map(|o| (&*o.name, o.version, &*o.bytes)).collect();
            assert_eq!(found, [("a", 4, b"new".as_slice())]);
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.redb");
        let database = open(&path, Durability::ProcessEnd).unwrap();
        let text = "x".repeat(100_000);
        write(&database, &[record("a", 2, Some(&text))]).unwrap();
        drop(database);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(8).position(|w| w == b"xxxxxxxx").unwrap();
        bytes[at + 50_000] = b'y';
        std::fs::write(&path, &bytes).unwrap();
        assert!(open(&path, Durability::ProcessEnd).is_err());
        std::fs::write(&path, b"something else").unwrap();
        assert!(open(&path, Durability::ProcessEnd).is_err());
    }

    #[test]
    fn corrupt_bytes_never_yield_wrong_objects() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.redb");
        let database = open(&path, Durability::ProcessEnd).unwrap();
        for version in 2..60 {
            let (name, text) = (format!("o{version}"), "x".repeat(700));
            write(&database, &[record(&name, version, Some(&text))]).unwrap();
        }
        let read = |database: &Database| {
            let kept = load(database).unwrap();
            let objects = kept.objects.into_iter();
            let objects: Vec<_> = objects.map(|o| (o.name, o.version, o.bytes)).collect();
            (kept.version, objects)
        };
        let expected = read(&database);
        drop(database);
        let contents = std::fs::read(&path).unwrap();
        let (mut refused, mut read_whole) = (0, 0);
        // The damaged offsets are the header of the file and samples of each page.
        let offsets = (0..512).chain((512..contents.len()).step_by(1021));
        for at in offsets {
            let mut bytes = contents.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            match open(&path, Durability::ProcessEnd) {
                Err(_) => refused += 1,
                Ok(database) => {
                    assert_eq!(read(&database), expected, "{at}");
                    read_whole += 1;
                }
            }
        }
        assert!(refused > 10 && read_whole > 10, "{refused} {read_whole}");
    }
}
