//! The recent past of one table: a bounded ring of events that watches read from at their own pace.
//! A reader that falls out of the ring is told so; it never silently loses an event.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object::Stored;

/// What happened to an object.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Added(Arc<Stored>),
    Modified {
        old: Arc<Stored>,
        new: Arc<Stored>,
    },
    /// `last` carries the version of the delete.
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

    /// The change that undoes this one.
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

    /// The object before the change.
    pub(crate) fn before(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(_) => None,
            Self::Modified { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }
}

/// Most events kept for one table.
const MAX_EVENTS: usize = 8192;
/// Most object bytes kept for one table's past, so that large objects do not multiply by `MAX_EVENTS`.
const MAX_BYTES: usize = 16 << 20;
/// However large the objects, this many events stay, so that a watch can always be resumed at once.
const MIN_EVENTS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct History {
    events: VecDeque<Change>,
    bytes: usize,
    /// Events up to this version may be gone.
    horizon: u64,
}

/// The version asked for is older than the ring.
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
        self.events.push_back(change);
        while self.events.len() > MAX_EVENTS
            || (self.bytes > MAX_BYTES && self.events.len() > MIN_EVENTS)
        {
            if let Some(gone) = self.events.pop_front() {
                self.bytes -= gone.current().bytes.len();
                self.horizon = gone.version();
            }
        }
    }

    /// Forgets the latest event, if it is of this version.
    pub(crate) fn forget(&mut self, version: u64) {
        if let Some(gone) = self.events.pop_back_if(|last| last.version() == version) {
            self.bytes -= gone.current().bytes.len();
        }
    }

    /// Up to `max` events after `version`.
    pub(crate) fn after(&self, version: u64, max: usize) -> Result<Vec<Change>, TooOld> {
        if version < self.horizon {
            return Err(TooOld);
        }
        let start = self.events.partition_point(|e| e.version() <= version);
        Ok(self.events.range(start..).take(max).cloned().collect())
    }

    /// Events after `version`, newest first: undoing them in this order gives the state at `version`.
    pub(crate) fn undo_to(&self, version: u64) -> Result<impl Iterator<Item = &Change>, TooOld> {
        if version < self.horizon {
            return Err(TooOld);
        }
        let start = self.events.partition_point(|e| e.version() <= version);
        Ok(self.events.range(start..).rev())
    }
}
