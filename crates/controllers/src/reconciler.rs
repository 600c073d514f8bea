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
//! The modules [`observe`] and [`store`] update the observed objects of a reconciler.
//!
//! The HTTP client logs an outage of the API server: one line at its beginning and one line at its end. Therefore the
//! runtime logs a request without a response at debug level only.
//!
//! `docs/decisions/0001-controller-runtime.md` compares this runtime with kube's `Controller`.

pub(crate) mod informer;
pub(crate) mod lean_object;
pub(crate) mod log_key;
pub(crate) mod observe;
pub(crate) mod store;
pub(crate) mod work_queue;

use std::sync::Arc;
use std::time::Duration;

use berth_component_base::list_watch::{Config, Error, Start};
use berth_events::EventRecorder;
use futures::FutureExt as _;
use kube::Client;
use kube::api::Api;
use kube::core::ApiResource;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::informer::{WatchEvent, inform};
use self::lean_object::LeanObject;
use self::work_queue::Timers;
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

impl ControllerError {
    /// Continues the panic in the calling task, so that the runtime of this task reports it.
    pub(crate) fn resume(self) {
        if let Ok(panic) = self.source.try_into_panic() {
            std::panic::resume_unwind(panic);
        }
    }
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

    /// Returns the queue whose delayed keys are the timers of this reconciler.
    fn timers(&mut self) -> Option<&mut dyn Timers> {
        None
    }

    /// Returns the time of the next timer, such as a retry.
    fn next_due(&mut self) -> Option<Instant> {
        self.timers()?.next_due()
    }

    /// Handles the timers that are due.
    fn handle_due(&mut self) {
        if let Some(timers) = self.timers() {
            timers.requeue_due();
        }
    }

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
    /// Starts the writer of a recorder of events. Returns the recorder.
    pub(crate) fn record_events(&mut self, component: &str) -> EventRecorder {
        let (recorder, writer) = EventRecorder::new(self.client.clone(), component);
        self.spawn(|_, stop| writer.run(stop));
        recorder
    }

    /// Starts an informer for objects of a member. Returns the token that stops it. The last event is an error if the
    /// objects exceed the limits of the member.
    pub(crate) fn watch_member(
        &mut self,
        member: Client,
        resource: &ApiResource,
        config: Config,
        to_event: impl Fn(Result<WatchEvent, Error>) -> E + Send + Sync + 'static,
    ) -> CancellationToken {
        let api: Api<LeanObject> = Api::all_with(member, resource);
        let stop = self.shutdown.child_token();
        let (sender, stopped) = (self.sender.clone(), stop.clone());
        self.tasks.spawn(async move {
            let message = |event| to_event(Ok(event));
            let ended = inform(api, config, message, sender.clone(), stopped).await;
            if let Err(error) = ended {
                // The channel is closed only after the end of the reconciler.
                let _ = sender.send(to_event(Err(error))).await;
            }
        });
        stop
    }

    /// Starts an informer for all objects of a resource. Returns the token that stops it.
    pub(crate) fn watch(
        &mut self,
        resource: &ApiResource,
        to_event: impl Fn(WatchEvent) -> E + Send + Sync + 'static,
    ) -> CancellationToken {
        self.watch_labelled(resource, None, to_event)
    }

    /// Starts an informer for the objects of a resource that a label selector selects. Returns the token that stops it.
    pub(crate) fn watch_labelled(
        &mut self,
        resource: &ApiResource,
        labels: Option<String>,
        to_event: impl Fn(WatchEvent) -> E + Send + Sync + 'static,
    ) -> CancellationToken {
        let api: Api<LeanObject> = Api::all_with(self.client.clone(), resource);
        let stop = self.shutdown.child_token();
        let sender = self.sender.clone();
        // Only watches of servers with limits return errors.
        let informer = inform(
            api,
            Config {
                start: Start::Stream,
                labels,
                ..Config::default()
            },
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
    /// The messages of the task that owns the reconciler, if there is one.
    messages: Option<mpsc::UnboundedReceiver<E>>,
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
            messages: None,
            events,
            activity,
            stop: shutdown.drop_guard(),
        }
    }

    /// Adds the messages of the task that owns the reconciler. The reconciler ends when their channel is closed. The
    /// channel is unbounded, so that the owner never waits.
    pub(crate) fn with_messages(mut self, messages: mpsc::UnboundedReceiver<E>) -> Self {
        self.messages = Some(messages);
        self
    }

    /// Returns the inputs, with which the caller starts informers and background tasks.
    pub(crate) fn inputs(&mut self) -> &mut Inputs<E> {
        &mut self.inputs
    }

    /// Runs a reconciler with at most `limit` workers until the token is cancelled or its owner is gone. Running jobs
    /// then have [`DRAIN_TIMEOUT`] to finish.
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
            mut messages,
            mut events,
            activity,
            stop,
        } = self;
        let mut workers = Workers::new(limit, activity);
        let mut channels = Channels {
            messages: &mut messages,
            events: &mut events,
        };
        let mut ended = run(reconciler, &mut inputs, &mut channels, &mut workers).await;
        drop((stop, messages, events));
        drain(&mut workers.jobs).await;
        while let Some(task) = inputs.tasks.join_next().await {
            ended = ended.and(task);
        }
        ended.map_err(|source| ControllerError { controller, source })
    }
}

/// The turns of a reconciler, until the token is cancelled or the owner is gone. Each turn handles the inputs that have
/// arrived, and then decides.
async fn run<R: Reconciler>(
    mut reconciler: R,
    inputs: &mut Inputs<R::Event>,
    channels: &mut Channels<'_, R::Event>,
    workers: &mut Workers<R::Outcome>,
) -> Result<(), JoinError> {
    let mut message_batch = Vec::new();
    let mut event_batch = Vec::with_capacity(BATCH);
    loop {
        // 1. Wait for an input, or for the next timer. The watchdog now expects no progress.
        let due = reconciler.next_due();
        workers.activity.set_waiting(due);
        tokio::select! {
            biased;
            // 2. The end comes before all inputs, so that a busy controller releases the Lease in time.
            () = inputs.shutdown.cancelled() => return Ok(()),
            // 3. Outcomes come before events: they free workers, and show the newest state of the written objects.
            Some(outcome) = workers.jobs.join_next() => {
                workers.activity.set_running();
                reconciler.handle_outcome(outcome?, inputs);
            }
            // 4. Messages of the owner come before events: they change the desired state, and events only report the
            //    observed state.
            count = receive(channels.messages, &mut message_batch) => {
                if count == 0 {
                    return Ok(());
                }
                workers.activity.set_running();
                for message in message_batch.drain(..) {
                    reconciler.handle_event(message, inputs);
                }
            }
            // 5. A batch of events is bounded, so that a long list does not delay the dispatch of urgent keys.
            _ = channels.events.recv_many(&mut event_batch, BATCH) => {
                workers.activity.set_running();
                for event in event_batch.drain(..) {
                    reconciler.handle_event(event, inputs);
                }
            }
            Some(ended) = inputs.tasks.join_next() => {
                workers.activity.set_running();
                ended?;
            }
            () = until(due) => workers.activity.set_running(),
        }
        // 6. Timers come after the inputs, and in every turn: a steady stream of events must not delay them.
        if due.is_some_and(|due| due <= Instant::now()) {
            reconciler.handle_due();
        }
        // 7. Decisions come last, so that they see all inputs of the turn.
        reconciler.dispatch(workers);
    }
}

/// The channels of a running reconciler.
struct Channels<'a, E> {
    messages: &'a mut Option<mpsc::UnboundedReceiver<E>>,
    events: &'a mut mpsc::Receiver<E>,
}

/// Receives a batch of messages. Returns 0 when the channel is closed. Waits forever if there is no channel.
async fn receive<E>(
    messages: &mut Option<mpsc::UnboundedReceiver<E>>,
    batch: &mut Vec<E>,
) -> usize {
    match messages {
        Some(messages) => messages.recv_many(batch, BATCH).await,
        None => std::future::pending().await,
    }
}

/// Returns a function that returns the number of events in a channel.
fn pending<E: Send + 'static>(
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
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
