//! The runtime of the controllers: one task observes, decides, and dispatches writes to workers.
//!
//! ```text
//! informers,         events (bounded)                        jobs (bounded)
//! background tasks ───────────────────> reconciler: state ────────────────> workers ──> API server
//!                                            ^                                 │
//!                                            └──────────── outcomes ───────────┘
//! ```
//!
//! A [`Reconciler`] owns its state. [`Runtime::run`] calls one of its methods at a time, so there is no lock, and no
//! decision sees half a change. Most reconcilers keep their keys in a [`WorkQueue`](work_queue::WorkQueue), which never
//! hands out a key twice at the same time and retries failures with a growing delay.
//!
//! An outage of the API server is logged by its client: one line when it begins and one when it ends. Here, a request
//! without a response is logged at debug level only.
//!
//! `docs/decisions/0001-controller-runtime.md` compares this with kube's `Controller`.

pub(crate) mod informer;
pub(crate) mod work_queue;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::informer::{AfterOutage, WatchEvent, inform};
use crate::monitor::Monitor;
use crate::monitor::watchdog::Heartbeat;

/// Capacity of the event channel. Informers wait while it is full.
const EVENT_CAPACITY: usize = 1024;
/// Maximum number of events handled before work is dispatched.
const BATCH: usize = 256;
/// Time limit for the writes in flight at the end. The Lease is released afterwards.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// An error that ends a controller: one of its tasks panicked.
#[derive(Debug, thiserror::Error)]
#[error("a task of the {controller} failed: {source}")]
pub struct ControllerError {
    controller: &'static str,
    source: JoinError,
}

/// The state of a controller, and its reactions to events.
pub(crate) trait Reconciler {
    /// A watch event with its source, or a message of a background task.
    type Event: Send + 'static;
    /// The result of a worker.
    type Outcome: Send + 'static;

    /// Updates the state after an event.
    fn handle_event(&mut self, event: Self::Event, inputs: &mut Inputs<Self::Event>);

    /// Updates the state after a worker finished.
    fn handle_outcome(&mut self, outcome: Self::Outcome, inputs: &mut Inputs<Self::Event>);

    /// Returns the time of the next timer, such as a retry.
    fn next_due(&mut self) -> Option<Instant>;

    /// Handles the timers that are due.
    fn handle_due(&mut self);

    /// Decides about queued work, and starts workers while some are free.
    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>);
}

/// The informers and background tasks that send events to a reconciler.
pub(crate) struct Inputs<E> {
    client: Client,
    sender: mpsc::Sender<E>,
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

impl<E: Send + 'static> Inputs<E> {
    /// Starts an informer for all objects of a resource. Returns the token that stops it.
    pub(crate) fn watch(
        &mut self,
        resource: &ApiResource,
        to_event: impl Fn(WatchEvent) -> E + Send + Sync + 'static,
    ) -> CancellationToken {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let stop = self.shutdown.child_token();
        let sender = self.sender.clone();
        let informer = inform(
            api,
            AfterOutage::Resume,
            watcher::Config::default(),
            to_event,
            sender,
            stop.clone(),
        );
        self.tasks.spawn(informer);
        stop
    }

    /// Starts a background task, which must end when its token is cancelled.
    pub(crate) fn spawn<F>(&mut self, task: impl FnOnce(mpsc::Sender<E>, CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.sender.clone(), self.shutdown.clone());
        self.tasks.spawn(task);
    }
}

/// A bounded set of running jobs.
pub(crate) struct Workers<O> {
    limit: usize,
    jobs: JoinSet<O>,
    heartbeat: Arc<Heartbeat>,
}

impl<O: Send + 'static> Workers<O> {
    fn new(limit: usize, heartbeat: Arc<Heartbeat>) -> Self {
        Self {
            limit,
            jobs: JoinSet::new(),
            heartbeat,
        }
    }

    /// Reports whether another job may start.
    pub(crate) fn has_free(&self) -> bool {
        self.jobs.len() < self.limit
    }

    /// Starts a job. The caller checks [`Self::has_free`] first.
    pub(crate) fn start(&mut self, job: impl Future<Output = O> + Send + 'static) {
        let guard = self.heartbeat.worker();
        self.jobs.spawn(async move {
            let _guard = guard;
            job.await
        });
    }
}

/// The inputs of a controller before it runs.
pub(crate) struct Runtime<E> {
    inputs: Inputs<E>,
    events: mpsc::Receiver<E>,
    heartbeat: Arc<Heartbeat>,
    /// Stops all tasks when the runtime ends, however it ends.
    stop: DropGuard,
}

impl<E: Send + 'static> Runtime<E> {
    /// Returns a runtime without inputs that stops when `shutdown` is cancelled. `name` is that of its queue.
    pub(crate) fn new(
        client: Client,
        name: &str,
        monitor: &Monitor,
        shutdown: &CancellationToken,
    ) -> Self {
        let shutdown = shutdown.child_token();
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        let heartbeat = monitor.heartbeat(name.to_owned(), pending(&sender));
        Self {
            inputs: Inputs {
                client,
                sender,
                tasks: JoinSet::new(),
                shutdown: shutdown.clone(),
            },
            events,
            heartbeat,
            stop: shutdown.drop_guard(),
        }
    }

    /// Returns the inputs, to start informers and background tasks.
    pub(crate) fn inputs(&mut self) -> &mut Inputs<E> {
        &mut self.inputs
    }

    /// Runs a reconciler with at most `limit` workers until the token is cancelled. Running jobs have half a second to
    /// finish then.
    ///
    /// # Errors
    /// When a task panics.
    pub(crate) async fn run<R: Reconciler<Event = E>>(
        self,
        controller: &'static str,
        reconciler: R,
        limit: usize,
    ) -> Result<(), ControllerError> {
        let Self {
            mut inputs,
            mut events,
            heartbeat,
            stop,
        } = self;
        let mut workers = Workers::new(limit, heartbeat);
        let mut ended = run(reconciler, &mut inputs, &mut events, &mut workers).await;
        drop((stop, events));
        drain(&mut workers.jobs).await;
        while let Some(task) = inputs.tasks.join_next().await {
            ended = ended.and(task);
        }
        ended.map_err(|source| ControllerError { controller, source })
    }
}

async fn run<R: Reconciler>(
    mut reconciler: R,
    inputs: &mut Inputs<R::Event>,
    events: &mut mpsc::Receiver<R::Event>,
    workers: &mut Workers<R::Outcome>,
) -> Result<(), JoinError> {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let due = reconciler.next_due();
        workers.heartbeat.waits(due);
        tokio::select! {
            biased;
            () = inputs.shutdown.cancelled() => return Ok(()),
            Some(outcome) = workers.jobs.join_next() => {
                workers.heartbeat.runs();
                reconciler.handle_outcome(outcome?, inputs);
            }
            _ = events.recv_many(&mut batch, BATCH) => {
                workers.heartbeat.runs();
                for event in batch.drain(..) {
                    reconciler.handle_event(event, inputs);
                }
            }
            Some(ended) = inputs.tasks.join_next() => {
                workers.heartbeat.runs();
                ended?;
            }
            () = until(due) => workers.heartbeat.runs(),
        }
        // A steady stream of events must not delay the timers.
        if due.is_some_and(|due| due <= Instant::now()) {
            reconciler.handle_due();
        }
        reconciler.dispatch(workers);
    }
}

/// Returns a function for the number of events in a channel.
pub(crate) fn pending<E: Send + 'static>(
    sender: &mpsc::Sender<E>,
) -> impl Fn() -> usize + Send + Sync + 'static {
    let sender = sender.downgrade();
    move || {
        let sender = sender.upgrade();
        sender.map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }
}

/// Waits a moment for jobs to finish, so that writes in flight end before the Lease is released.
pub(crate) async fn drain<T: 'static>(jobs: &mut JoinSet<T>) {
    let all = async { while jobs.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
        tracing::debug!("abandoned requests without a response at the end");
    }
}

/// Waits until a time, or forever without one.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
