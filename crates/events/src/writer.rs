//! The task that writes events, a few at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::happening::Happening;
use crate::sending::{Line, SendError};
use crate::series::{Name, Next, Series, SeriesKey};

/// How many writes are on their way at the same time: one slow answer delays few events, and events leave most of the
/// server to others.
pub(crate) const AT_ONCE: usize = 4;
/// With more events than this waiting, they do not leave way to others any more.
const IMPATIENT_BACKLOG: usize = 50_000;
/// How long an event leaves way to more urgent work.
const LONGEST_YIELD: Duration = Duration::from_millis(20);
/// How long repetitions are counted before the count is written.
const COUNTING: Duration = Duration::from_secs(1);
/// How long the writer goes on after the end was asked for, to write what waits.
const DRAIN: Duration = Duration::from_secs(2);
/// How long an answer may take unless somebody says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says when one more request may be sent, where others have a say in that.
pub trait Pace: Send + Sync {
    /// Waits for the turn of one request.
    fn turn(&self) -> BoxFuture<'_, ()>;
}

/// A happening, who tells of it, and when it was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) component: Arc<str>,
    pub(crate) happening: Happening,
    pub(crate) at: jiff::Timestamp,
}

/// Writes what recorders tell.
pub struct EventWriter {
    line: Line,
    pace: Option<Arc<dyn Pace>>,
    receiver: mpsc::Receiver<Told>,
    busy: watch::Receiver<bool>,
    series: Series,
    /// Series whose counts are to be written, and when; all of them wait equally long, so this is their order.
    outdated: VecDeque<(Instant, SeriesKey, Told)>,
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}

/// A write that has come to its end.
struct Done {
    key: SeriesKey,
    told: Told,
    /// The name of the event, and its count.
    tried: (Name, i32),
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
            series: Series::default(),
            outdated: VecDeque::new(),
        }
    }

    /// The same writer, which waits for its turn before each write.
    #[must_use]
    pub fn with_pace(mut self, pace: Arc<dyn Pace>) -> Self {
        self.pace = Some(pace);
        self
    }

    /// The same writer, which waits so long for an answer.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.line.patience = patience;
        self
    }

    /// Writes events until all recorders are gone, or for a little while after the token was cancelled.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut writes = Writes::new();
        let mut waiting: Option<(Told, Instant)> = None;
        let mut open = true;
        while open || waiting.is_some() || !writes.is_empty() {
            let turn = waiting.as_ref().map(|(_, until)| *until);
            let due = self.outdated.front().map(|(at, ..)| *at);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(done) = writes.next() => self.done(done, &mut writes),
                () = at(due), if due.is_some() && writes.len() < AT_ONCE => self.count_oldest(&mut writes),
                () = way_is_free(&mut self.busy, turn), if turn.is_some() => {
                    if let Some((told, _)) = waiting.take() {
                        self.take(told, &mut writes);
                    }
                }
                told = self.receiver.recv(),
                    if open && waiting.is_none() && writes.len() < AT_ONCE =>
                {
                    match told {
                        Some(told) => waiting = Some((told, self.yield_until())),
                        None => open = false,
                    }
                }
            }
        }
        self.receiver.close();
        if let Some((told, _)) = waiting.take() {
            self.take(told, &mut writes);
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
                Some(done) = writes.next() => self.done(done, &mut writes),
                Some(told) = self.receiver.recv(), if writes.len() < AT_ONCE => {
                    self.take(told, &mut writes);
                }
                else => {
                    if self.outdated.is_empty() {
                        return;
                    }
                    self.count_oldest(&mut writes);
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

    fn take(&mut self, told: Told, writes: &mut Writes) {
        let key = SeriesKey::of(&told);
        match self.series.happens(&key) {
            Next::Begin => {
                let began = told.at.as_nanosecond();
                self.create(key, told, (began, 1), writes);
            }
            Next::CountSoon => self.count_soon(key, told),
            Next::Nothing => {}
        }
    }

    fn count_soon(&mut self, key: SeriesKey, told: Told) {
        let at = Instant::now() + COUNTING;
        self.outdated.push_back((at, key, told));
    }

    fn count_oldest(&mut self, writes: &mut Writes) {
        if let Some((_, key, mut told)) = self.outdated.pop_front()
            && let Some(tried) = self.series.due(&key)
        {
            told.at = jiff::Timestamp::now();
            self.count(key, told, tried, writes);
        }
    }

    fn create(&self, key: SeriesKey, told: Told, tried: (Name, i32), writes: &mut Writes) {
        let (line, pace) = (self.line.clone(), self.pace.clone());
        writes.push(Box::pin(async move {
            turn(pace).await;
            let outcome = line.create(&told, tried.1).await;
            Done {
                key,
                told,
                tried,
                outcome,
            }
        }));
    }

    fn count(&self, key: SeriesKey, told: Told, tried: (Name, i32), writes: &mut Writes) {
        let (line, pace) = (self.line.clone(), self.pace.clone());
        writes.push(Box::pin(async move {
            turn(pace).await;
            let outcome = line.count(&told, tried.0, tried.1).await;
            Done {
                key,
                told,
                tried,
                outcome,
            }
        }));
    }

    fn done(&mut self, done: Done, writes: &mut Writes) {
        let Done {
            key,
            told,
            tried: (name, count),
            outcome,
        } = done;
        match outcome {
            Ok(()) => {
                if self.series.written(&key, name, count) {
                    self.count_soon(key, told);
                }
            }
            // A new one begins.
            Err(SendError::Gone) => {
                let began = told.at.as_nanosecond();
                self.create(key, told, (began, 1), writes);
            }
            Err(error) if error.is_of_an_ending_namespace() => {
                tracing::debug!(%error, "an event comes after its namespace");
                self.series.forget(&key);
            }
            Err(error) => {
                let reason = told.happening.reason;
                tracing::warn!(%error, reason, "cannot record an event");
                self.series.forget(&key);
            }
        }
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

/// Waits while there is more urgent work, but not for long.
async fn way_is_free(busy: &mut watch::Receiver<bool>, until: Option<Instant>) {
    let Some(until) = until else { return };
    let _ = tokio::time::timeout_at(until, busy.wait_for(|busy| !busy)).await;
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
