//! The recent changes of one table, in a ring of limited size that each watch reads at its own pace. A reader that is
//! too far behind gets an error. No reader silently misses a change.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object::Stored;

/// A change of an object.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Added(Arc<Stored>),
    Modified {
        old: Arc<Stored>,
        new: Arc<Stored>,
    },
    /// The object was deleted. `last` has the version of the delete.
    Deleted {
        old: Arc<Stored>,
        last: Arc<Stored>,
    },
}

impl Change {
    pub(crate) fn version(&self) -> u64 {
        self.current().version
    }

    pub(crate) fn current(&self) -> &Arc<Stored> {
        match self {
            Self::Added(o) | Self::Modified { new: o, .. } | Self::Deleted { last: o, .. } => o,
        }
    }

    /// Returns the change that reverts this change.
    pub(crate) fn inverse(&self) -> Self {
        match self {
            Self::Added(new) => Self::Deleted {
                old: new.clone(),
                last: new.clone(),
            },
            Self::Modified { old, new } => Self::Modified {
                old: new.clone(),
                new: old.clone(),
            },
            Self::Deleted { old, .. } => Self::Added(old.clone()),
        }
    }

    /// Returns the object after the change, unless it was deleted.
    pub(crate) fn after(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(new) | Self::Modified { new, .. } => Some(new),
            Self::Deleted { .. } => None,
        }
    }

    /// Returns the object before the change.
    pub(crate) fn before(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(_) => None,
            Self::Modified { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }
}

/// Maximum number of changes in the history of one table.
const MAX_CHANGES: usize = 8192;
/// Maximum size of the objects in the history of one table, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Minimum number of changes that a history keeps regardless of their size. Thus watches of large objects can resume.
const MIN_CHANGES: usize = 256;

/// The recent changes of one table.
#[derive(Debug, Default)]
pub(crate) struct History {
    changes: VecDeque<Change>,
    bytes: usize,
    /// The history may lack changes up to this version.
    horizon: u64,
}

/// An error: the requested version is older than the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld;

impl History {
    pub(crate) fn starting_at(horizon: u64) -> Self {
        Self {
            horizon,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.bytes += change.current().bytes.len();
        self.changes.push_back(change);
        while self.changes.len() > MAX_CHANGES
            || (self.bytes > MAX_BYTES && self.changes.len() > MIN_CHANGES)
        {
            if let Some(removed) = self.changes.pop_front() {
                self.bytes -= removed.current().bytes.len();
                self.horizon = removed.version();
            }
        }
    }

    /// Removes the latest change if it has this version.
    pub(crate) fn remove_latest(&mut self, version: u64) {
        if let Some(removed) = self.changes.pop_back_if(|last| last.version() == version) {
            self.bytes -= removed.current().bytes.len();
        }
    }

    /// Returns up to `max` changes after `version`.
    pub(crate) fn after(&self, version: u64, max: usize) -> Result<Vec<Change>, TooOld> {
        if version < self.horizon {
            return Err(TooOld);
        }
        let start = self.changes.partition_point(|e| e.version() <= version);
        Ok(self.changes.range(start..).take(max).cloned().collect())
    }

    /// Returns the changes after `version`, newest first. Reverting them in this order restores the state at `version`.
    pub(crate) fn undo_to(&self, version: u64) -> Result<impl Iterator<Item = &Change>, TooOld> {
        if version < self.horizon {
            return Err(TooOld);
        }
        let start = self.changes.partition_point(|e| e.version() <= version);
        Ok(self.changes.range(start..).rev())
    }
}
