//! The task that writes events, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::correlator::Correlator;
use crate::happening::Told;
use crate::sending::{Line, SendError};
use crate::series::Draft;

/// Maximum concurrent writes. Some concurrency limits the effect of slow responses, but leaves the server to
/// others.
pub(crate) const AT_ONCE: usize = 4;
/// With more queued events than this, writes no longer yield to urgent work.
const IMPATIENT_BACKLOG: usize = 50_000;
/// Maximum time for which an event yields to urgent work.
const LONGEST_YIELD: Duration = Duration::from_millis(20);
/// Maximum time to write queued events after a shutdown.
const DRAIN: Duration = Duration::from_secs(2);
/// Default timeout of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Limits the rate of requests.
pub trait Pace: Send + Sync {
    /// Waits until one request may be sent.
    fn turn(&self) -> BoxFuture<'_, ()>;
}

/// Writes the events of recorders.
pub struct EventWriter {
    line: Line,
    pace: Option<Arc<dyn Pace>>,
    receiver: mpsc::Receiver<Told>,
    busy: watch::Receiver<bool>,
    correlator: Correlator,
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}

/// A completed write.
struct Done {
    draft: Draft,
    outcome: Result<(), SendError>,
}

type Writes = FuturesUnordered<BoxFuture<'static, Done>>;

impl EventWriter {
    pub(crate) fn new(
        client: kube::Client,
        receiver: mpsc::Receiver<Told>,
        busy: watch::Receiver<bool>,
    ) -> Self {
        Self {
            line: Line {
                client,
                patience: PATIENCE,
            },
            pace: None,
            receiver,
            busy,
            correlator: Correlator::default(),
        }
    }

    /// Limits the rate of writes.
    #[must_use]
    pub fn with_pace(mut self, pace: Arc<dyn Pace>) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Sets the timeout of requests.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.line.patience = patience;
        self
    }

    /// Writes events until all recorders are dropped, or until queued events are written after the token is
    /// cancelled.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut writes = Writes::new();
        let mut waiting: Option<(Draft, Instant)> = None;
        let mut open = true;
        while open || waiting.is_some() || !writes.is_empty() {
            let turn = waiting.as_ref().map(|(_, until)| *until);
            let due = self.correlator.next_due();
            let has_room = writes.len() < AT_ONCE;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(done) = writes.next() => self.done(done),
                () = at(due), if due.is_some() && has_room => self.write_next(&mut writes),
                () = way_is_free(&mut self.busy, turn), if turn.is_some() && has_room => {
                    if let Some((draft, _)) = waiting.take() {
                        self.write(draft, &mut writes);
                    }
                }
                told = self.receiver.recv(), if open && waiting.is_none() && has_room => match told {
                    Some(told) => waiting = self.take(told).map(|draft| (draft, self.yield_until())),
                    None => open = false,
                }
            }
        }
        self.receiver.close();
        if let Some((draft, _)) = waiting.take() {
            self.write(draft, &mut writes);
        }
        if tokio::time::timeout(DRAIN, self.drain(writes))
            .await
            .is_err()
        {
            tracing::warn!("stopped before all events were written");
        }
    }

    async fn drain(&mut self, mut writes: Writes) {
        loop {
            tokio::select! {
                Some(done) = writes.next() => self.done(done),
                Some(told) = self.receiver.recv(), if writes.len() < AT_ONCE => {
                    if let Some(draft) = self.take(told) {
                        self.write(draft, &mut writes);
                    }
                }
                else => {
                    if self.correlator.next_due().is_none() {
                        return;
                    }
                    self.write_next(&mut writes);
                }
            }
        }
    }

    fn yield_until(&self) -> Instant {
        if self.receiver.len() < IMPATIENT_BACKLOG {
            Instant::now() + LONGEST_YIELD
        } else {
            Instant::now()
        }
    }

    fn take(&mut self, told: Told) -> Option<Draft> {
        self.correlator.happens(told, Instant::now())
    }

    fn write_next(&mut self, writes: &mut Writes) {
        if let Some(draft) = self.correlator.take_next(Instant::now()) {
            self.write(draft, writes);
        }
    }

    fn write(&self, draft: Draft, writes: &mut Writes) {
        let (line, pace) = (self.line.clone(), self.pace.clone());
        writes.push(Box::pin(async move {
            turn(pace).await;
            let outcome = line.write(&draft).await;
            Done { draft, outcome }
        }));
    }

    fn done(&mut self, done: Done) {
        let Done { draft, outcome } = done;
        match outcome {
            Ok(()) => {}
            Err(error) if error.is_of_an_ending_namespace() => {
                tracing::debug!(%error, "an event comes after its namespace");
            }
            Err(error) => {
                let reason = draft.latest.happening.reason;
                tracing::warn!(%error, reason, "cannot record an event");
            }
        }
        self.correlator.settle(draft.key, Instant::now());
    }
}

async fn at(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

async fn turn(pace: Option<Arc<dyn Pace>>) {
    if let Some(pace) = pace {
        pace.turn().await;
    }
}

/// Waits until urgent work is done, or until the given time.
async fn way_is_free(busy: &mut watch::Receiver<bool>, until: Option<Instant>) {
    let Some(until) = until else { return };
    let _ = tokio::time::timeout_at(until, busy.wait_for(|busy| !busy)).await;
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
