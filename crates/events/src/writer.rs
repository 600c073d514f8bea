//! The task that writes events. It owns the correlator, and sends a few writes at the same time.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use berth_apimachinery::repeated_failure::RepeatedFailure;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::correlator::Correlator;
use crate::event::Occurrence;
use crate::event_client::{EventClient, SendError};
use crate::series::Draft;

/// Maximum number of concurrent writes. A slow response then delays few events, and the server gets few requests at
/// once.
pub(crate) const MAX_CONCURRENT: usize = 4;
/// Number of queued events from which on writes no longer yield to urgent work.
const YIELD_BACKLOG: usize = 50_000;
/// Maximum time for which the write of an event yields to urgent work.
const MAX_YIELD: Duration = Duration::from_millis(20);
/// Maximum time to write the queued events after a shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Default timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A limit for the rate of requests.
pub trait RateLimiter: Send + Sync {
    /// Waits until the next request may be sent.
    fn acquire(&self) -> BoxFuture<'_, ()>;
}

/// The writer of the events that its recorders queue.
pub struct EventWriter {
    event_client: EventClient,
    rate_limiter: Option<Arc<dyn RateLimiter>>,
    receiver: mpsc::Receiver<Occurrence>,
    busy: watch::Receiver<bool>,
    correlator: Correlator,
    failure: RepeatedFailure,
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}

/// A completed write with its result.
struct Done {
    draft: Draft,
    outcome: Result<(), SendError>,
}

type Writes = FuturesUnordered<BoxFuture<'static, Done>>;

impl EventWriter {
    pub(crate) fn new(
        client: kube::Client,
        receiver: mpsc::Receiver<Occurrence>,
        busy: watch::Receiver<bool>,
    ) -> Self {
        Self {
            event_client: EventClient {
                client,
                timeout: REQUEST_TIMEOUT,
            },
            rate_limiter: None,
            receiver,
            busy,
            correlator: Correlator::default(),
            failure: RepeatedFailure::default(),
        }
    }

    /// Limits the rate of writes.
    #[must_use]
    pub fn with_rate_limiter(mut self, rate_limiter: Arc<dyn RateLimiter>) -> Self {
        self.rate_limiter = Some(rate_limiter);
        self
    }

    /// Sets the timeout of requests.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.event_client.timeout = timeout;
        self
    }

    /// Writes events until all recorders are dropped. After `shutdown` is cancelled, writes the queued events for at
    /// most two seconds, and ends.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut writes = Writes::new();
        let mut waiting: Option<(Draft, Instant)> = None;
        let mut open = true;
        while open || waiting.is_some() || !writes.is_empty() {
            let yields_until = waiting.as_ref().map(|(_, until)| *until);
            let due = self.correlator.next_due();
            let has_capacity = writes.len() < MAX_CONCURRENT;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(done) = writes.next() => self.done(done),
                () = wait_until(due), if due.is_some() && has_capacity => self.write_next(&mut writes),
                () = wait_for_urgent_work(&mut self.busy, yields_until), if yields_until.is_some() && has_capacity => {
                    if let Some((draft, _)) = waiting.take() {
                        self.write(draft, &mut writes);
                    }
                }
                occurrence = self.receiver.recv(), if open && waiting.is_none() && has_capacity => match occurrence {
                    Some(occurrence) => waiting = self.correlate(occurrence).map(|draft| (draft, self.yield_until())),
                    None => open = false,
                }
            }
        }
        self.receiver.close();
        if let Some((draft, _)) = waiting.take() {
            self.write(draft, &mut writes);
        }
        if tokio::time::timeout(DRAIN_TIMEOUT, self.drain(writes))
            .await
            .is_err()
        {
            tracing::warn!("shutdown before all events were written");
        }
    }

    async fn drain(&mut self, mut writes: Writes) {
        loop {
            tokio::select! {
                Some(done) = writes.next() => self.done(done),
                Some(occurrence) = self.receiver.recv(), if writes.len() < MAX_CONCURRENT => {
                    if let Some(draft) = self.correlate(occurrence) {
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
        if self.receiver.len() < YIELD_BACKLOG {
            Instant::now() + MAX_YIELD
        } else {
            Instant::now()
        }
    }

    fn correlate(&mut self, occurrence: Occurrence) -> Option<Draft> {
        self.correlator.add(occurrence, Instant::now())
    }

    fn write_next(&mut self, writes: &mut Writes) {
        if let Some(draft) = self.correlator.take_next(Instant::now()) {
            self.write(draft, writes);
        }
    }

    fn write(&self, draft: Draft, writes: &mut Writes) {
        let (event_client, rate_limiter) = (self.event_client.clone(), self.rate_limiter.clone());
        writes.push(Box::pin(async move {
            acquire(rate_limiter).await;
            let outcome = event_client.write(&draft).await;
            Done { draft, outcome }
        }));
    }

    fn done(&mut self, done: Done) {
        let Done { draft, outcome } = done;
        match outcome {
            Ok(()) => {
                if let Some(end) = self.failure.succeeded_for_one(Instant::now().into_std()) {
                    let lost = end.failures;
                    tracing::info!(lost, "events are recorded again after {}", end.lasted);
                }
            }
            Err(error) if error.is_namespace_terminating() => {
                tracing::debug!(%error, "dropped an event of a terminating namespace");
            }
            Err(error) => {
                self.log_loss(&draft, &error);
            }
        }
        self.correlator.complete(draft.key, Instant::now());
    }
}

impl EventWriter {
    /// Logs the loss of an event.
    fn log_loss(&mut self, draft: &Draft, error: &impl Display) {
        let reason = draft.latest.event.reason;
        // The message of the server may name the event, so the cause is the same for all events.
        let line = self.failure.failed("", Instant::now().into_std());
        if let Some(line) = line {
            let repeated = line.repeated;
            tracing::warn!(
                %error,
                reason,
                repeated,
                "cannot record an event, which is lost: check the rights of this account on events"
            );
        } else {
            tracing::debug!(%error, reason, "cannot record an event");
        }
    }
}

async fn wait_until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

async fn acquire(rate_limiter: Option<Arc<dyn RateLimiter>>) {
    if let Some(rate_limiter) = rate_limiter {
        rate_limiter.acquire().await;
    }
}

/// Waits until urgent work is done, at most until the given time.
async fn wait_for_urgent_work(busy: &mut watch::Receiver<bool>, until: Option<Instant>) {
    let Some(until) = until else { return };
    let _ = tokio::time::timeout_at(until, busy.wait_for(|busy| !busy)).await;
}

#[cfg(test)]
mod tests;
