//! A storage that outlives the process. One thread owns the database; whatever was written while it was busy
//! with a batch makes up the next one, so that many writers share the price of a commit.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use redb::Database;
use tokio::sync::watch;

use super::database::{self, Durability};
use super::journal::{self, Journal};
use super::{Kept, Progress, Record, Storage, StorageError};

/// Changes that wait for the next batch. Each is as long as its writer waits for it to be kept, so there are
/// no more than requests under way, and what background work has written in one turn.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<Record>,
    closed: bool,
}

impl Queue {
    fn push(&self, record: Record) {
        let mut waiting = self.waiting.lock();
        if !waiting.closed {
            waiting.records.push(record);
            self.ready.notify_one();
        }
    }

    /// Everything that waits, as soon as there is something; `None` after the last.
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

    fn close(&self) {
        self.waiting.lock().closed = true;
        self.ready.notify_one();
    }
}

/// Objects in a database file.
#[derive(Debug)]
pub struct Durable {
    /// Taken by the first `load`.
    loaded: Mutex<Option<Kept>>,
    queue: Arc<Queue>,
    progress: watch::Receiver<Progress>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Durable {
    /// Opens the database file of this path, or makes it; the files of the past are beside it. The lock is held
    /// until the storage is closed.
    pub(super) fn open(
        path: &Path,
        durability: Durability,
        lock: Arc<File>,
    ) -> Result<Self, StorageError> {
        let failed = |error: &dyn std::fmt::Display| {
            StorageError(format!("cannot use {}: {error}", path.display()))
        };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        // It would be made anew, and nobody would be told that there was something.
        if is_empty(path).map_err(|e| failed(&e))? && journal::is_there(folder) {
            return Err(failed(
                &"it is lost or empty, and the changes beside it are not: put the file back, or remove the folder to \
                  start with nothing",
            ));
        }
        let database = database::open(path, durability).map_err(|e| failed(&e))?;
        let mut kept = database::load(&database).map_err(|e| failed(&e))?;
        let (mut journal, past) = Journal::open(folder, kept.version)
            .map_err(|e| StorageError(format!("cannot use {}: {e}", folder.display())))?;
        kept.past = past;
        let queue = Arc::new(Queue::default());
        let (progress, follow) = watch::channel(Progress::UpTo(kept.version));
        let (own_queue, own_path) = (queue.clone(), path.to_owned());
        let writer = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || {
                write(&database, &mut journal, &own_queue, &progress, &own_path);
                // In this order: whoever gets the lock finds the file closed.
                drop(database);
                drop(lock);
            })
            .map_err(|e| failed(&e))?;
        Ok(Self {
            loaded: Mutex::new(Some(kept)),
            queue,
            progress: follow,
            writer: Mutex::new(Some(writer)),
        })
    }
}

/// Whether there is nothing in a file, or no file.
fn is_empty(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn write(
    database: &Database,
    journal: &mut Journal,
    queue: &Queue,
    progress: &watch::Sender<Progress>,
    path: &Path,
) {
    while let Some(batch) = queue.take() {
        let kept = journal
            .append(&batch)
            .map_err(redb::Error::Io)
            .and_then(|()| database::keep(database, &batch));
        match kept {
            Ok(Some(version)) => drop(progress.send_replace(Progress::UpTo(version))),
            Ok(None) => {}
            Err(error) => {
                let why = format!("cannot write to {}: {error}", path.display());
                tracing::error!("{why}");
                progress.send_replace(Progress::Failed(StorageError(why)));
                queue.close();
                return;
            }
        }
    }
}

impl Storage for Durable {
    fn load(&self) -> Result<Kept, StorageError> {
        Ok(self.loaded.lock().take().unwrap_or_default())
    }

    fn write(&self, record: Record) {
        self.queue.push(record);
    }

    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        Some(self.progress.clone())
    }

    fn close(&self) {
        self.queue.close();
        let writer = self.writer.lock().take();
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
