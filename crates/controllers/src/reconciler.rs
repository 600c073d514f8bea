//! The runtime of the controllers: one task handles the events, decides, and dispatches writes to workers.
//!
//! ```text
//! informers,         events (bounded)                        jobs (bounded)
//! background tasks ───────────────────> reconciler: state ────────────────> workers ──> API server
//!                                            ^                                 │
//!                                            └──────────── outcomes ───────────┘
//! ```
//!
//! A [`Reconciler`] owns its state. [`Runtime::run`] calls one method of the reconciler at a time, so the state needs
//! no lock, and every decision sees complete changes only. Most reconcilers keep their keys in a
//! [`WorkQueue`](work_queue::WorkQueue), which never returns a running key, and retries failures with a growing delay.
//!
//! The HTTP client logs an outage of the API server: one line at its beginning and one line at its end. Therefore the
//! runtime logs a request without a response at debug level only.
//!
//! `docs/decisions/0001-controller-runtime.md` compares this runtime with kube's `Controller`.

pub(crate) mod informer;
pub(crate) mod work_queue;

use std::sync::Arc;
use std::time::Duration;

use berth_component_base::list_watch::Config;
use futures::FutureExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::informer::{ManagedFields, WatchEvent, inform};
use crate::monitor::Monitor;
use crate::monitor::watchdog::LoopActivity;

/// Capacity of the event channel. Informers wait while it is full.
const EVENT_CAPACITY: usize = 1024;
/// Maximum number of events handled before queued work is dispatched.
const BATCH: usize = 256;
/// Time limit for the running writes when the controller ends. The Lease is released after these writes.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// An error that ends a controller: one of its tasks panicked.
#[derive(Debug, thiserror::Error)]
#[error("a task of the {controller} failed: {source}")]
pub struct ControllerError {
    controller: &'static str,
    source: JoinError,
}

/// A controller's state, which handles events.
pub(crate) trait Reconciler {
    /// A watch event with the watched resource, or a message of a background task.
    type Event: Send + 'static;
    /// The result of a job.
    type Outcome: Send + 'static;

    /// Updates the state after an event.
    fn handle_event(&mut self, event: Self::Event, inputs: &mut Inputs<Self::Event>);

    /// Updates the state after a job finished.
    fn handle_outcome(&mut self, outcome: Self::Outcome, inputs: &mut Inputs<Self::Event>);

    /// Returns the time of the next timer, such as a retry.
    fn next_due(&mut self) -> Option<Instant>;

    /// Handles the timers that are due.
    fn handle_due(&mut self);

    /// Decides about queued work, and starts jobs while workers are free.
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
        // Only watches of servers with limits return errors.
        let informer = inform(
            api,
            Config::default(),
            ManagedFields::None,
            to_event,
            sender,
            stop.clone(),
        );
        self.tasks.spawn(informer.map(drop));
        stop
    }

    /// Starts a background task. The task must end when its token is cancelled.
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
    activity: Arc<LoopActivity>,
}

impl<O: Send + 'static> Workers<O> {
    fn new(limit: usize, activity: Arc<LoopActivity>) -> Self {
        Self {
            limit,
            jobs: JoinSet::new(),
            activity,
        }
    }

    /// Reports whether the number of running jobs is below the limit.
    pub(crate) fn has_free(&self) -> bool {
        self.jobs.len() < self.limit
    }

    /// Starts a job. The caller checks [`Self::has_free`] first.
    pub(crate) fn start(&mut self, job: impl Future<Output = O> + Send + 'static) {
        let guard = self.activity.start_worker();
        self.jobs.spawn(async move {
            let _guard = guard;
            job.await
        });
    }
}

/// A controller's event channel and inputs before the controller runs.
pub(crate) struct Runtime<E> {
    inputs: Inputs<E>,
    events: mpsc::Receiver<E>,
    activity: Arc<LoopActivity>,
    /// A guard that stops all tasks when it is dropped.
    stop: DropGuard,
}

impl<E: Send + 'static> Runtime<E> {
    /// Returns a runtime without inputs. The runtime stops when `shutdown` is cancelled. `name` is the name of the
    /// controller's queue.
    pub(crate) fn new(
        client: Client,
        name: &str,
        monitor: &Monitor,
        shutdown: &CancellationToken,
    ) -> Self {
        let shutdown = shutdown.child_token();
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        let activity = monitor.watch_loop(name.to_owned(), pending(&sender));
        Self {
            inputs: Inputs {
                client,
                sender,
                tasks: JoinSet::new(),
                shutdown: shutdown.clone(),
            },
            events,
            activity,
            stop: shutdown.drop_guard(),
        }
    }

    /// Returns the inputs, with which the caller starts informers and background tasks.
    pub(crate) fn inputs(&mut self) -> &mut Inputs<E> {
        &mut self.inputs
    }

    /// Runs a reconciler with at most `limit` workers until the token is cancelled. After the cancellation, running
    /// jobs have [`DRAIN_TIMEOUT`] to finish.
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
            activity,
            stop,
        } = self;
        let mut workers = Workers::new(limit, activity);
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
        workers.activity.set_waiting(due);
        tokio::select! {
            biased;
            () = inputs.shutdown.cancelled() => return Ok(()),
            Some(outcome) = workers.jobs.join_next() => {
                workers.activity.set_running();
                reconciler.handle_outcome(outcome?, inputs);
            }
            _ = events.recv_many(&mut batch, BATCH) => {
                workers.activity.set_running();
                for event in batch.drain(..) {
                    reconciler.handle_event(event, inputs);
                }
            }
            Some(ended) = inputs.tasks.join_next() => {
                workers.activity.set_running();
                ended?;
            }
            () = until(due) => workers.activity.set_running(),
        }
        // A steady stream of events must not delay the timers.
        if due.is_some_and(|due| due <= Instant::now()) {
            reconciler.handle_due();
        }
        reconciler.dispatch(workers);
    }
}

/// Returns a function that returns the number of events in a channel.
pub(crate) fn pending<E: Send + 'static>(
    sender: &mpsc::Sender<E>,
) -> impl Fn() -> usize + Send + Sync + 'static {
    let sender = sender.downgrade();
    move || {
        let sender = sender.upgrade();
        sender.map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }
}

/// Waits up to [`DRAIN_TIMEOUT`] for the jobs, so that their writes end before the Lease is released.
pub(crate) async fn drain<T: 'static>(jobs: &mut JoinSet<T>) {
    let all = async { while jobs.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
        tracing::debug!("abandoned requests without a response at the end");
    }
}

/// Waits until `due`, or forever if there is no time.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
