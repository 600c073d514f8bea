//! The sending half: tells without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use crate::happening::{Happening, Told};
use crate::source::Source;
use crate::writer::EventWriter;

/// How many events may wait before new ones are dropped.
pub(crate) const BACKLOG: usize = 100_000;

/// The sending half of a recorder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    source: Source,
    sender: mpsc::Sender<Told>,
    busy: Arc<watch::Sender<bool>>,
    dropped: Arc<AtomicU64>,
}

impl EventRecorder {
    /// A recorder that speaks for this component, and the writer behind it, which is to be run as a task.
    pub fn new(client: kube::Client, component: &str) -> (Self, EventWriter) {
        Self::with_backlog(client, component, BACKLOG)
    }

    pub(crate) fn with_backlog(
        client: kube::Client,
        component: &str,
        backlog: usize,
    ) -> (Self, EventWriter) {
        let (sender, receiver) = mpsc::channel(backlog);
        let busy = Arc::new(watch::Sender::new(false));
        let writer = EventWriter::new(client, receiver, busy.subscribe());
        let recorder = Self {
            source: Source::new(component),
            sender,
            busy,
            dropped: Arc::default(),
        };
        (recorder, writer)
    }

    /// The same recorder, in the name of another component.
    #[must_use]
    pub fn of(&self, component: &str) -> Self {
        Self {
            source: Source::new(component),
            ..self.clone()
        }
    }

    /// The same recorder, of a component that is one of many: the one on this host.
    #[must_use]
    pub fn on(&self, host: &str) -> Self {
        Self {
            source: self.source.on(host),
            ..self.clone()
        }
    }

    /// Says whether there is more urgent work under way: events then leave the API server to that for a while.
    pub fn set_busy(&self, busy: bool) {
        self.busy
            .send_if_modified(|known| std::mem::replace(known, busy) != busy);
    }

    /// Tells of a happening.
    pub fn record(&self, happening: Happening) {
        let told = Told {
            source: self.source.clone(),
            happening,
            at: jiff::Timestamp::now(),
        };
        match self.sender.try_send(told) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => tracing::debug!("an event comes after the end"),
            Err(TrySendError::Full(_)) => {
                // Whoever floods the recorder should not flood the log as well.
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                if dropped.is_power_of_two() {
                    tracing::warn!(dropped, "too many events: dropped what did not fit");
                }
            }
        }
    }
}
