//! Disk faults that tests inject into the storage.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

static ALL: LazyLock<Mutex<HashMap<PathBuf, Faults>>> = LazyLock::new(Mutex::default);

/// The number of disk operations that succeed before all further operations fail.
#[derive(Debug, Clone)]
pub(super) struct Faults(Arc<AtomicI64>);

/// Returns the disk faults for a file.
pub(super) fn of(path: &Path) -> Faults {
    let working = || Faults(Arc::new(AtomicI64::new(i64::MAX)));
    ALL.lock()
        .entry(path.to_owned())
        .or_insert_with(working)
        .clone()
}

impl Faults {
    /// Lets this number of operations succeed, and all further operations fail.
    pub(super) fn after(&self, operations: i64) {
        self.0.store(operations, Ordering::SeqCst);
    }

    pub(super) fn repair(&self) {
        self.after(i64::MAX);
    }

    /// Reports whether an operation has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.0.load(Ordering::SeqCst) < 0
    }

    pub(super) fn check(&self) -> io::Result<()> {
        if self.0.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}
