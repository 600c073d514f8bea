//! The recorder, which queues events for the writer and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use crate::event::Source;
use crate::event::{Event, Occurrence};
use crate::writer::EventWriter;

/// The capacity of the queue. While the queue is full, further events are dropped.
pub(crate) const QUEUE_LENGTH: usize = 100_000;

/// A recorder of events, which queues the events for an [`EventWriter`]. Clones are cheap.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    source: Source,
    sender: mpsc::Sender<Occurrence>,
    busy: Arc<watch::Sender<bool>>,
    dropped: Arc<AtomicU64>,
    /// True to record routine events.
    routine: bool,
}

impl EventRecorder {
    /// Creates a recorder for a component, and the writer of its events. The caller must run the writer as a task.
    pub fn new(client: kube::Client, component: &str) -> (Self, EventWriter) {
        Self::with_queue_length(client, component, QUEUE_LENGTH)
    }

    pub(crate) fn with_queue_length(
        client: kube::Client,
        component: &str,
        queue_length: usize,
    ) -> (Self, EventWriter) {
        let (sender, receiver) = mpsc::channel(queue_length);
        let busy = Arc::new(watch::Sender::new(false));
        let writer = EventWriter::new(client, receiver, busy.subscribe());
        let recorder = Self {
            source: Source::new(component),
            sender,
            busy,
            dropped: Arc::default(),
            routine: false,
        };
        (recorder, writer)
    }

    /// Returns a recorder for another component with the same writer.
    #[must_use]
    pub fn of(&self, component: &str) -> Self {
        Self {
            source: Source::new(component),
            ..self.clone()
        }
    }

    /// Returns a recorder for the instance of the component on a host.
    #[must_use]
    pub fn on(&self, host: &str) -> Self {
        Self {
            source: self.source.on(host),
            ..self.clone()
        }
    }

    /// Sets whether [`Self::record_routine`] records its events. It does not by default.
    #[must_use]
    pub fn with_routine_events(self, routine: bool) -> Self {
        Self { routine, ..self }
    }

    /// Records an event about a step that succeeded as expected, and whose result the object or its status shows. By
    /// default such an event is dropped, because it costs a write and tells nothing new.
    pub fn record_routine(&self, event: Event) {
        if self.routine {
            self.record(event);
        }
    }

    /// Sets whether more urgent work is in progress. During urgent work, writes of new events wait for a moment.
    pub fn set_busy(&self, busy: bool) {
        self.busy
            .send_if_modified(|current| std::mem::replace(current, busy) != busy);
    }

    /// Records an event.
    pub fn record(&self, event: Event) {
        let occurrence = Occurrence {
            source: self.source.clone(),
            event,
            at: jiff::Timestamp::now(),
        };
        match self.sender.try_send(occurrence) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => tracing::debug!("dropped an event after the shutdown"),
            Err(TrySendError::Full(_)) => {
                // The 1st, 2nd, 4th, 8th … lost event logs a warning, so that the log stays short.
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                if dropped.is_power_of_two() {
                    tracing::warn!(dropped, "the event queue is full; dropped events");
                }
            }
        }
    }
}
