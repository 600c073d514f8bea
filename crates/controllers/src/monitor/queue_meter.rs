//! The meter of one work queue. Queues with the same name share their metrics.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_component_base::metrics::workqueue::{Ticket, WorkQueue};
use tokio::time::Instant;

/// A meter of one work queue. The default meter has its own metrics, which no endpoint shows.
#[derive(Debug, Default)]
pub(crate) struct QueueMeter {
    name: &'static str,
    shared: Arc<Mutex<WorkQueue>>,
    /// The number of keys in this queue. It is subtracted from the shared metrics when the queue is dropped.
    depth: usize,
    running: HashSet<Ticket>,
}

impl QueueMeter {
    pub(super) fn new(name: &'static str, shared: Arc<Mutex<WorkQueue>>) -> Self {
        Self {
            name,
            shared,
            depth: 0,
            running: HashSet::new(),
        }
    }

    /// Returns the name of the queue, which is that of its controller.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn with<T>(&self, change: impl FnOnce(&mut WorkQueue) -> T) -> T {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a key that entered the queue.
    pub(crate) fn added(&mut self) {
        self.depth += 1;
        self.with(WorkQueue::added);
    }

    /// Counts a key that left the queue. `waited` is the time for which the key waited.
    pub(crate) fn taken(&mut self, waited: Duration) {
        self.depth = self.depth.saturating_sub(1);
        self.with(|queue| queue.taken(waited));
    }

    /// Records the start of a run.
    pub(crate) fn started(&mut self) -> Ticket {
        let now = Instant::now().into_std();
        let ticket = self.with(|queue| queue.started(now));
        self.running.insert(ticket);
        ticket
    }

    /// Records the end of a run.
    pub(crate) fn ended(&mut self, ticket: Ticket) {
        let now = Instant::now().into_std();
        if self.running.remove(&ticket) {
            self.with(|queue| queue.ended(ticket, now));
        }
    }

    /// Counts a key that returns to the queue after a failure.
    pub(crate) fn retried(&mut self) {
        self.with(WorkQueue::retried);
    }
}

impl Drop for QueueMeter {
    fn drop(&mut self) {
        let (depth, running) = (self.depth, std::mem::take(&mut self.running));
        self.with(|queue| {
            queue.dropped(depth);
            for ticket in running {
                queue.abandoned(ticket);
            }
        });
    }
}
