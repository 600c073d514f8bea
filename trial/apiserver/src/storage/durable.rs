//! The durable storage, in a database file and a journal. One thread owns the files. Changes that arrive during a
//! commit form the next batch, so that many writers share the cost of a commit.
//!
//! If a batch cannot be written, its changes are undone. Further changes are refused until the database can be reopened
//! and written again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redb::Database;
use tokio::sync::watch;

use super::database::{self, Durability};
use super::journal::{self, Journal};
use super::{Kept, Past, Progress, Record, Storage, StorageError, Undo};

/// Minimum and maximum pause between two attempts to recover.
const RETRY: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(1), Duration::from_millis(10))
} else {
    (Duration::from_secs(1), Duration::from_secs(30))
};
/// The pause after an attempt to recover is the duration of the attempt multiplied by this factor, within the limits of
/// [`RETRY`]. Each attempt reads the whole database, so a constant pause would keep the disk busy.
const RETRY_FACTOR: u32 = 4;

/// The changes for the next batch. Writers wait until their changes are durable, which limits the size of the queue.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<QueuedChanges>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct QueuedChanges {
    records: Vec<Record>,
    refusing: Option<StorageError>,
    closed: bool,
}

impl Queue {
    fn push(&self, record: Record) -> Result<(), StorageError> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(StorageError("the storage is closed".to_owned()));
        }
        if let Some(error) = &waiting.refusing {
            return Err(error.clone());
        }
        waiting.records.push(record);
        self.ready.notify_one();
        Ok(())
    }

    /// Waits for changes and returns all of them. Returns `None` when the queue is closed and empty.
    fn take(&self) -> Option<Vec<Record>> {
        let mut waiting = self.waiting.lock();
        while waiting.records.is_empty() {
            if waiting.closed {
                return None;
            }
            self.ready.wait(&mut waiting);
        }
        Some(std::mem::take(&mut waiting.records))
    }

    /// Removes all changes from the queue and refuses further changes.
    fn refuse(&self, error: StorageError) {
        let mut waiting = self.waiting.lock();
        waiting.refusing = Some(error);
        waiting.records.clear();
    }

    fn accept(&self) {
        self.waiting.lock().refusing = None;
    }

    /// Waits for some time or until the queue is closed. Reports whether the queue is closed.
    fn sleep(&self, time: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        let until = Instant::now() + time;
        while !waiting.closed && !self.ready.wait_until(&mut waiting, until).timed_out() {}
        waiting.closed
    }

    fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_one();
    }
}

/// The open files of a storage.
struct Files {
    database: Database,
    journal: Journal,
}

impl Files {
    /// Opens or creates the database file and the journal in the same folder. Returns the files and their contents.
    fn open(path: &Path, durability: Durability) -> Result<(Self, Kept), StorageError> {
        let failed = |error: &dyn std::fmt::Display| {
            StorageError(format!("cannot use {}: {error}", path.display()))
        };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        // Without this check, a missing database file would be replaced by an empty database without an error.
        if is_empty(path).map_err(|e| failed(&e))? && journal::exists(folder) {
            return Err(failed(
                &"it is missing or empty, but its journal has changes: put the file back, or remove the folder to \
                  start without objects",
            ));
        }
        let database = database::open(path, durability).map_err(|e| failed(&e))?;
        let mut kept = database::load(&database).map_err(|e| failed(&e))?;
        let (journal, past) = Self::open_journal(folder, kept.version)?;
        kept.past = past;
        Ok((Self { database, journal }, kept))
    }

    fn open_journal(folder: &Path, version: u64) -> Result<(Journal, Vec<Past>), StorageError> {
        Journal::open(folder, version)
            .map_err(|e| StorageError(format!("cannot use {}: {e}", folder.display())))
    }

    /// Writes a batch to the journal and then to the database. Returns the version of the last change in the batch.
    fn write(&mut self, batch: &[Record]) -> Result<Option<u64>, redb::Error> {
        self.journal.append(batch)?;
        database::write(&self.database, batch)
    }
}

/// A storage in a database file and a journal.
pub struct Durable {
    /// The contents at the start, until the first `load` returns them.
    loaded: Mutex<Option<Kept>>,
    queue: Arc<Queue>,
    undo: Arc<OnceLock<Undo>>,
    progress: watch::Receiver<Progress>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Durable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable").finish_non_exhaustive()
    }
}

impl Durable {
    /// Opens or creates the database file. Holds `lock`, the lock of the data folder, until the storage is closed.
    pub(super) fn open(
        path: &Path,
        durability: Durability,
        lock: Arc<File>,
    ) -> Result<Self, StorageError> {
        let (files, kept) = Files::open(path, durability)?;
        let (queue, undo) = (Arc::new(Queue::default()), Arc::default());
        let (progress, follow) = watch::channel(Progress {
            kept: kept.version,
            ..Progress::default()
        });
        let writer = Writer {
            path: path.to_owned(),
            durability,
            queue: Arc::clone(&queue),
            undo: Arc::clone(&undo),
            progress,
        };
        let writer = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || {
                writer.run(files);
                // The files are closed before the lock is released.
                drop(lock);
            })
            .map_err(|e| StorageError(format!("cannot use {}: {e}", path.display())))?;
        Ok(Self {
            loaded: Mutex::new(Some(kept)),
            queue,
            undo,
            progress: follow,
            writer: Mutex::new(Some(writer)),
        })
    }
}

/// Reports whether a file is empty or missing.
fn is_empty(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// The thread that owns the files.
struct Writer {
    path: PathBuf,
    durability: Durability,
    queue: Arc<Queue>,
    undo: Arc<OnceLock<Undo>>,
    progress: watch::Sender<Progress>,
}

impl Writer {
    fn run(self, mut files: Files) {
        while let Some(batch) = self.queue.take() {
            match files.write(&batch) {
                Ok(Some(version)) => self
                    .progress
                    .send_modify(|progress| progress.kept = version),
                Ok(None) => {}
                Err(error) => {
                    let message = format!("cannot write to {}: {error}", self.path.display());
                    self.undo_pending(StorageError(message));
                    // After an error, the database must be reopened.
                    drop(files);
                    match self.recover(&batch) {
                        Some(reopened) => files = reopened,
                        None => return,
                    }
                }
            }
        }
    }

    /// Undoes all changes that are not durable, and refuses further changes.
    fn undo_pending(&self, error: StorageError) {
        tracing::error!("{error}; no writes are accepted until it can be written again");
        self.queue.refuse(error.clone());
        if let Some(undo) = self.undo.get() {
            undo(self.progress.borrow().kept);
        }
        self.progress.send_modify(|progress| {
            progress.losses += 1;
            progress.refusing = Some(error);
        });
    }

    /// Tries to reopen the files without the lost changes until an attempt succeeds, and then accepts changes again.
    /// Returns `None` if the storage is closed before an attempt succeeds.
    fn recover(&self, lost: &[Record]) -> Option<Files> {
        let mut pause = RETRY.0;
        while !self.queue.sleep(pause) {
            let began = Instant::now();
            match self.reopen(lost) {
                Ok(files) => {
                    tracing::info!("{} can be written again", self.path.display());
                    self.queue.accept();
                    self.progress
                        .send_modify(|progress| progress.refusing = None);
                    return Some(files);
                }
                Err(error) => tracing::debug!(%error, "the storage cannot be written yet"),
            }
            pause = (began.elapsed() * RETRY_FACTOR).clamp(RETRY.0, RETRY.1);
        }
        None
    }

    fn reopen(&self, lost: &[Record]) -> Result<Files, StorageError> {
        let wanted = self.progress.borrow().kept;
        let (mut files, kept) = Files::open(&self.path, self.durability)?;
        let failed = |error: &dyn std::fmt::Display| {
            StorageError(format!("cannot use {}: {error}", self.path.display()))
        };
        if kept.version == wanted {
            return Ok(files);
        }
        // The commit of the lost changes may be complete although it returned an error.
        if lost.last().is_none_or(|last| last.version != kept.version) {
            let message = format!("it has version {} instead of {wanted}", kept.version);
            return Err(failed(&message));
        }
        database::revert(&files.database, lost, wanted).map_err(|e| failed(&e))?;
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        files.journal = Files::open_journal(folder, wanted)?.0;
        Ok(files)
    }
}

impl Storage for Durable {
    fn load(&self) -> Result<Kept, StorageError> {
        Ok(self.loaded.lock().take().unwrap_or_default())
    }

    fn on_loss(&self, undo: Undo) {
        if self.undo.set(undo).is_err() {
            tracing::error!("the storage already has a store");
        }
    }

    fn write(&self, record: Record) -> Result<(), StorageError> {
        self.queue.push(record)
    }

    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        Some(self.progress.clone())
    }

    fn close(&self) {
        self.queue.close();
        let writer = self.writer.lock().take();
        // The current thread is the writer thread if the undo callback drops the last reference to the server. A thread
        // cannot join itself.
        let is_other = |writer: &JoinHandle<()>| writer.thread().id() != thread::current().id();
        let writer = writer.filter(is_other);
        if writer.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the storage thread panicked");
        }
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;
    use crate::storage::{Written, faults};

    const TIMEOUT: Duration = Duration::from_mins(1);

    fn open(path: &Path, durability: Durability) -> (Durable, Kept) {
        let lock = Arc::new(tempfile::tempfile().unwrap());
        let storage = Durable::open(path, durability, lock).unwrap();
        let kept = storage.load().unwrap();
        (storage, kept)
    }

    fn objects(kept: &Kept) -> BTreeMap<String, Bytes> {
        let objects = kept.objects.iter();
        objects
            .map(|o| (o.name.to_string(), o.bytes.clone()))
            .collect()
    }

    /// Returns a change of one of seven objects, and applies the change to `now`.
    fn record(version: u64, now: &mut BTreeMap<String, Bytes>) -> Record {
        let name = format!("o{}", version % 7);
        let object = Bytes::from(vec![u8::try_from(version % 251).unwrap(); 9000]);
        let before = now.get(&name).cloned();
        let written = match before {
            Some(before) if version.is_multiple_of(3) => {
                now.remove(&name);
                Written::Removed {
                    before,
                    last: object.clone(),
                }
            }
            Some(before) => Written::Replaced {
                before,
                object: object.clone(),
            },
            None => Written::Created {
                object: object.clone(),
            },
        };
        if !matches!(written, Written::Removed { .. }) {
            now.insert(name.clone(), object);
        }
        Record {
            table: "things".into(),
            namespace: "n".into(),
            name: name.into(),
            version,
            written,
        }
    }

    /// Waits until `state` returns true for the progress, and returns the progress.
    fn until(storage: &Durable, state: impl Fn(&Progress) -> bool) -> Progress {
        let progress = storage.progress().unwrap();
        let began = Instant::now();
        loop {
            let now = progress.borrow().clone();
            if state(&now) {
                return now;
            }
            assert!(began.elapsed() < TIMEOUT, "{now:?}");
            thread::yield_now();
        }
    }

    /// Lets the disk fail after 0 to 39 operations. Checks that the acknowledged changes survive, and that the storage
    /// recovers.
    #[test]
    fn acknowledged_changes_survive_disk_failures() {
        for durability in [Durability::ProcessEnd, Durability::PowerLoss] {
            let mut failures = 0;
            for operations in 0..40 {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("objects.redb");
                let disk = faults::of(&path);
                let (storage, _) = open(&path, durability);
                let undone = Arc::new(Mutex::new(None));
                storage.on_loss(Box::new({
                    let undone = undone.clone();
                    move |version| *undone.lock() = Some(version)
                }));
                let mut now = BTreeMap::new();
                for version in 2..20 {
                    storage.write(record(version, &mut now)).unwrap();
                }
                until(&storage, |progress| progress.kept == 19);
                disk.after(operations);
                let mut kept = 19;
                while kept < 40 {
                    let mut then = now.clone();
                    storage.write(record(kept + 1, &mut then)).unwrap();
                    let settled = until(&storage, |p| p.kept > kept || p.losses > 0);
                    if settled.losses > 0 {
                        break;
                    }
                    (kept, now) = (kept + 1, then);
                }
                if !disk.has_failed() {
                    continue;
                }
                failures += 1;
                assert_eq!(*undone.lock(), Some(kept));
                let mut other = now.clone();
                let refused = storage.write(record(kept + 1, &mut other)).unwrap_err();
                assert!(refused.0.contains("objects.redb"), "{refused}");
                // Half of the cases recover here before the storage is closed.
                if operations % 2 == 0 {
                    disk.repair();
                    until(&storage, |progress| progress.refusing.is_none());
                    storage.write(record(kept + 1, &mut now)).unwrap();
                    until(&storage, |progress| progress.kept == kept + 1);
                    kept += 1;
                }
                storage.close();
                disk.repair();
                let (_, found) = open(&path, durability);
                if found.version == kept {
                    assert_eq!(objects(&found), now, "{durability:?} {operations}");
                } else {
                    // Without a recovery, the file may contain the last batch, which was not acknowledged.
                    assert_eq!((found.version, operations % 2), (kept + 1, 1));
                    drop(record(kept + 1, &mut now));
                    assert_eq!(objects(&found), now);
                }
                let versions: Vec<u64> = found.past.iter().map(|past| past.version).collect();
                let first = versions.first().copied().unwrap_or(found.version + 1);
                assert_eq!(versions, (first..=found.version).collect::<Vec<_>>());
            }
            assert!(failures > 10, "{failures}");
        }
    }
}
