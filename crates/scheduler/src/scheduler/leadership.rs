//! The role of this process in the leader election, and the state that only a leader has.

use std::time::{Duration, Instant};

use super::eviction::Evictions;
use super::permit::ParkedBindings;
use super::post_filter::PreemptionRetries;
use super::queue_reports::QueueReports;
use super::writes::Writes;
use crate::queue::{Queue, QueueOrder, Turns};

/// The role of this process in the leader election.
pub(super) enum Role {
    /// This process fills its caches, so that it can decide at once when it becomes the leader.
    Standby,
    /// This process decides and writes. It leads until it ends.
    Leading(Box<Leading>),
}

impl Role {
    /// Returns the state of a leader, or `None` on a standby.
    pub(super) fn leading(&mut self) -> Option<&mut Leading> {
        match self {
            Self::Standby => None,
            Self::Leading(leading) => Some(leading),
        }
    }

    /// Reports whether this process is the leader.
    pub(super) fn is_leading(&self) -> bool {
        matches!(self, Self::Leading(_))
    }

    /// Returns the earliest time at which a delayed key or a parked decision is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Standby => None,
            Self::Leading(leading) => {
                let deadlines = [
                    leading.queue.next_flush(),
                    leading.parked.next_deadline(),
                    leading.queue_reports.due,
                ];
                deadlines.into_iter().flatten().min()
            }
        }
    }
}

/// The bindings that a leader has to decide, and its unfinished decisions. Functions that take this state cannot run on
/// a standby.
#[derive(Debug)]
pub(super) struct Leading {
    pub(super) queue: Queue,
    /// Decisions that wait for Permit plugins.
    pub(super) parked: ParkedBindings,
    /// Decisions that are being written.
    pub(super) writes: Writes,
    /// Victims that are being evicted.
    pub(super) evictions: Evictions,
    pub(super) preemption_retries: PreemptionRetries,
    pub(super) queue_reports: QueueReports,
    /// Duration of the last decision.
    pub(super) last_decision: Duration,
}

impl Leading {
    /// Creates the state of a leader with an empty queue.
    pub(super) fn new(order: QueueOrder, turns: &Turns) -> Self {
        Self {
            queue: Queue::new(order, turns),
            parked: ParkedBindings::default(),
            writes: Writes::default(),
            evictions: Evictions::default(),
            preemption_retries: PreemptionRetries::default(),
            queue_reports: QueueReports::starting(Instant::now()),
            last_decision: Duration::ZERO,
        }
    }
}
