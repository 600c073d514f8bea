//! The task of one member. It owns the observed Cluster, the Works of the member, and the cache of the member's
//! objects.
//!
//! The task runs on the controllers' [`Runtime`]. It never waits for the member: a bounded number of concurrent jobs
//! sends the requests, and watches send events to the task. Therefore the task always accepts messages, even if the
//! member is slow.

use berth_apimachinery::repeated_failure::RepeatedFailure;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::well_known::{MANAGED, MANAGED_VALUE};
use berth_api::{Cluster, Work, names};
use berth_component_base::list_watch::{self, Budget, Limits};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Address, Connection};
use super::object_cache::{KindKey, ObjectCache, kind_key};
use super::pod_looks::Look;
use super::work_action::{ClusterState, action_for};
use super::work_executor::{WorkExecutor, WorkInput, WorkResult};
use super::work_record::WorkRecord;
use crate::member_client;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{Inputs, Reconciler, Runtime, Workers};
use crate::resource_type::ResourceType;
use crate::rest_mapper::RestMapper;
use berth_apimachinery::json_fields::kind_of;

/// The name of the members' queues in metrics.
const QUEUE: &str = "execution-controller";
/// Maximum objects and bytes of objects that all watches of a member together keep.
const LIMITS: Limits = Limits {
    objects: 100_000,
    bytes: 256 << 20,
};
/// Delay before the next connection to a member that exceeded its limits.
const DELAY_BEYOND_LIMITS: Duration = Duration::from_mins(5);
/// Maximum delay before a retry.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// A message to a member's task.
#[derive(Debug)]
pub(crate) enum Message {
    /// The Cluster was created or changed. `None` if it was deleted.
    Cluster(Option<Arc<Cluster>>),
    /// A Work was created or changed.
    Work(Arc<Work>),
    /// The Work of this name was deleted.
    WorkGone(String),
    /// A watch of the member has sent an event.
    Watch(MemberEvent),
}

/// A watch event of the member.
#[derive(Debug)]
pub(crate) struct MemberEvent {
    /// The connection that sent the event. Events of former connections are ignored.
    connection_id: u64,
    kind: KindKey,
    /// The event, or the reason for which the watch ended: the objects exceed the limits of the member.
    event: Result<WatchEvent, String>,
}

/// A queued job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// Connect to the member.
    Connect,
    /// Reconcile the Work of this name.
    Work(String),
    /// Reconcile the Work of this name if a look at its pods is due.
    Look(String),
}

/// The result of a job.
enum JobResult {
    Connect(Result<kube::Client, String>),
    Work(String, Box<WorkResult>),
}

/// The state of a member.
struct Member {
    name: String,
    execution_namespace: String,
    executor: WorkExecutor,
    cluster: Option<Arc<Cluster>>,
    state: ClusterState,
    address: Option<Address>,
    connection: Connection,
    /// Limits the log lines about a member without a connection.
    outage: RepeatedFailure,
    /// Incremented when a connection ends.
    connection_id: u64,
    works: HashMap<String, WorkRecord>,
    objects: ObjectCache,
    /// The limits of the watches of the current connection.
    budget: Budget,
    queue: WorkQueue<Job, ()>,
}

/// Runs the task of a member until shutdown, or until the message channel is closed.
pub(crate) async fn run(
    name: String,
    executor: WorkExecutor,
    max_jobs: usize,
    messages: mpsc::UnboundedReceiver<Message>,
    shutdown: CancellationToken,
) {
    let (monitor, client) = (executor.monitor.clone(), executor.control_plane.clone());
    let title = format!("{QUEUE} of {name}");
    let runtime = Runtime::new(client, &title, &monitor, &shutdown).with_messages(messages);
    let member = Member {
        execution_namespace: names::execution_namespace(&name),
        budget: Budget::new(name.clone(), LIMITS),
        name,
        cluster: None,
        state: ClusterState::Deleted,
        address: None,
        connection: Connection::None,
        outage: RepeatedFailure::default(),
        connection_id: 0,
        works: HashMap::new(),
        objects: ObjectCache::default(),
        queue: WorkQueue::with_longest_delay(MAX_RETRY_DELAY).metered(monitor.queue(QUEUE)),
        executor,
    };
    if let Err(error) = runtime.run(QUEUE, member, max_jobs).await {
        error.resume();
    }
}

impl Reconciler for Member {
    type Event = Message;
    type Outcome = JobResult;

    fn handle_event(&mut self, message: Message, _: &mut Inputs<Message>) {
        match message {
            Message::Cluster(cluster) => self.handle_cluster(cluster),
            Message::Work(work) => self.handle_work(work),
            Message::WorkGone(name) => {
                self.works.remove(&name);
            }
            Message::Watch(event) => self.handle_watch_event(event),
        }
    }

    fn handle_outcome(&mut self, result: JobResult, inputs: &mut Inputs<Message>) {
        match result {
            JobResult::Connect(Ok(client)) => {
                // The count of failures is kept, because the member may still reject the credentials.
                self.queue.release(&Job::Connect);
                self.connection = Connection::Established(RestMapper::new(client));
                if let Some(end) = self.outage.ended(Instant::now().into_std()) {
                    let (cluster, failures) = (&self.name, end.failures);
                    tracing::info!(
                        cluster,
                        failures,
                        "connected to the member again after {}",
                        end.lasted
                    );
                }
                self.enqueue_all();
            }
            JobResult::Connect(Err(reason)) => self.fail_connection(&reason),
            JobResult::Work(name, result) => self.finish_work(&name, *result, inputs),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    /// Starts jobs while workers are free. The comments number the phases of a Work in its member. None of them waits:
    /// jobs send all requests.
    fn dispatch(&mut self, workers: &mut Workers<JobResult>) {
        while workers.has_free() {
            // 1. The next key. A changed Work comes before the Works that a new connection or a retry has queued: a
            //    user does not wait until a member with thousands of Works has caught up.
            let Some((job, ())) = self.queue.next() else {
                return;
            };
            // 2. The connection is a job of its own, so that an unreachable member costs one attempt to connect, and
            //    not one for each Work.
            let name = match &job {
                Job::Connect => {
                    self.start_connecting(workers);
                    continue;
                }
                Job::Look(name) => {
                    self.queue_due_look(name.clone());
                    self.queue.finish(&job);
                    continue;
                }
                Job::Work(name) => name,
            };
            // 3. The Work. The key has no copy of it, so that several changes need one job, about the newest version.
            let Some(record) = self.works.get(name) else {
                self.queue.finish(&job);
                continue;
            };
            // 4. The action. It comes before the connection, because some actions need no member: the Works of a
            //    deleted cluster lose their finalizers without a connection.
            let action = action_for(record.work(), self.state);
            let member = match &self.connection {
                Connection::Established(kinds) => Ok(kinds.clone()),
                Connection::Failed(reason) => Err(reason.clone()),
                // The Work is enqueued again when the attempt to connect ends.
                Connection::None if action.needs_member() => {
                    self.queue.finish(&job);
                    self.queue.push(Job::Connect, (), Priority::High);
                    continue;
                }
                Connection::None => Err(String::new()),
            };
            // 5. The observed objects. They come last, because only a job that starts now may use them: an event in
            //    the next turn can replace them.
            let manifests = record.work().spec.workload.manifests.iter();
            let input = WorkInput {
                work: Arc::clone(record.work()),
                cluster: self.name.clone(),
                action,
                member,
                cached: manifests
                    .map(|manifest| self.objects.get(manifest))
                    .collect(),
                applied: record.applied().to_vec(),
                removed: record.removed_objects(),
                may_defer_report: self.queue.may_wait(&job),
                look: record.looks.next(Instant::now()),
            };
            // 6. The requests to the member, and then the status of the Work, which reports them. `finish_work` handles
            //    the result in a later turn.
            let (executor, name) = (self.executor.clone(), name.clone());
            self.queue.start(job);
            workers.start(async move {
                let result = executor.execute(input).await;
                JobResult::Work(name, Box::new(result))
            });
        }
    }
}

impl Member {
    fn handle_cluster(&mut self, cluster: Option<Arc<Cluster>>) {
        let state = ClusterState::of(cluster.as_deref());
        let address = cluster.as_deref().and_then(Address::of);
        self.cluster = cluster;
        if address != self.address {
            self.address = address;
            self.connection = Connection::None;
            self.clear_objects();
            self.clear_applied();
            self.enqueue_all();
        }
        if state != self.state {
            let is_ready = state.is_ready();
            tracing::debug!(cluster = self.name, is_ready, "cluster state changed");
            if state.is_ready() && !self.state.is_ready() {
                // The objects may have changed while the member was not ready. They are read and watched again, so that
                // no report is older than the readiness.
                self.clear_objects();
            }
            self.state = state;
            self.enqueue_all();
        }
    }

    fn handle_work(&mut self, work: Arc<Work>) {
        let name = work.metadata.name.clone().unwrap_or_default();
        match self.works.get_mut(&name) {
            None => {
                self.works.insert(name.clone(), WorkRecord::new(work));
            }
            Some(record) => {
                if !record.update(work) {
                    return;
                }
            }
        }
        self.enqueue(name, Priority::High);
    }

    /// Removes the cached objects, and ignores further events of the current watches.
    fn clear_objects(&mut self) {
        self.connection_id += 1;
        self.objects.clear();
        self.budget = Budget::new(self.name.clone(), LIMITS);
    }

    /// Removes the applied states of all Works.
    fn clear_applied(&mut self) {
        for record in self.works.values_mut() {
            record.clear_applied();
        }
    }

    /// Queues a Work if a look at its pods is due. The workload may have become healthy since the look was planned.
    fn queue_due_look(&mut self, work: String) {
        let now = Instant::now();
        let Some(record) = self.works.get_mut(&work) else {
            return;
        };
        if let Some(due) = record.looks.dequeued(now) {
            self.queue.push_at(Job::Look(work), due);
        } else if record.looks.next(now) != Look::NotDue {
            self.enqueue(work, Priority::Low);
        }
    }

    fn enqueue(&mut self, work: String, priority: Priority) {
        self.queue.push(Job::Work(work), (), priority);
    }

    fn enqueue_all(&mut self) {
        let names: Vec<String> = self.works.keys().cloned().collect();
        for name in names {
            self.enqueue(name, Priority::Low);
        }
    }

    /// Updates the cache, and enqueues the Works of the affected objects. A complete list also enqueues all Works with
    /// objects of the listed kind.
    fn handle_watch_event(&mut self, event: MemberEvent) {
        if event.connection_id != self.connection_id {
            return;
        }
        let watch_event = match event.event {
            Ok(watch_event) => watch_event,
            Err(reason) => return self.disconnect_beyond_limits(&reason),
        };
        let listed = matches!(watch_event, WatchEvent::Listed(_));
        let changed = self.objects.handle_watch_event(&event.kind, watch_event);
        let Some(changed) = changed else {
            return;
        };
        let namespace = &self.execution_namespace;
        let mut works: Vec<String> = changed
            .iter()
            .filter_map(|object| object.work(namespace))
            .collect();
        if listed {
            let (api_version, kind) = &event.kind;
            let has_kind = |record: &WorkRecord| {
                let mut manifests = record.work().spec.workload.manifests.iter();
                manifests.any(|manifest| kind_of(manifest) == (api_version, kind))
            };
            let of_kind = self.works.iter().filter(|(_, record)| has_kind(record));
            works.extend(of_kind.map(|(name, _)| name.clone()));
        }
        for work in works {
            // The status of a workload changes several times while its pods start.
            if self.works.contains_key(&work) {
                self.queue.push_settled(Job::Work(work));
            }
        }
    }

    /// Ends all watches of a member that has too many objects, and frees their memory.
    fn disconnect_beyond_limits(&mut self, reason: &str) {
        self.clear_objects();
        self.queue.finish(&Job::Connect);
        self.queue
            .push_at(Job::Connect, Instant::now() + DELAY_BEYOND_LIMITS);
        self.set_failed(&format!(
            "{reason}; delete objects with the label {MANAGED}={MANAGED_VALUE} that no Work contains, or propagate \
             to more members"
        ));
    }

    /// Marks the connection as failed, and tries again after a growing delay.
    fn fail_connection(&mut self, reason: &str) {
        self.queue.fail(&Job::Connect, ());
        self.set_failed(reason);
    }

    /// Marks the connection as failed. A new reason is reported in the status of the Works.
    fn set_failed(&mut self, reason: &str) {
        let cluster = &self.name;
        let message = format!("no connection to cluster {cluster}: {reason}");
        if let Some(line) = self.outage.failed(reason, Instant::now().into_std()) {
            let repeated = line.repeated;
            tracing::warn!(
                cluster,
                reason,
                repeated,
                "no connection to the member, trying again later"
            );
        }
        if !matches!(&self.connection, Connection::Failed(known) if *known == message) {
            self.connection = Connection::Failed(message);
            self.enqueue_all();
        }
    }

    fn finish_work(&mut self, name: &str, result: WorkResult, inputs: &mut Inputs<Message>) {
        // The written Work may contain another client's change whose watch event has not arrived yet. The record then
        // already contains the change, and the event enqueues nothing. Therefore the Work is enqueued here.
        let mut newer = false;
        if let Some(record) = self.works.get_mut(name) {
            newer = result
                .work
                .is_some_and(|work| record.update(Arc::new(work)));
            record.set_applied(result.applied);
            record.forget_former(&result.removed);
            if let Some(due) = record.looks.observe(result.health, Instant::now()) {
                self.queue.push_at(Job::Look(name.to_owned()), due);
            }
        }
        let authorized = !result.kinds.is_empty() && !result.unauthorized;
        for resource in result.kinds {
            self.watch(resource, inputs);
        }
        for (resource, object) in result.objects {
            self.objects.store_response(&resource, object);
        }
        if newer {
            self.enqueue(name.to_owned(), Priority::High);
        }
        let job = Job::Work(name.to_owned());
        match result.failure {
            None if result.is_report_deferred => self.queue.wait(&job),
            None => self.queue.finish(&job),
            Some(error) => {
                let failures = self.queue.fail(&job, ());
                tracing::debug!(
                    cluster = self.name, work = name, failures, %error,
                    "work not finished, trying again later"
                );
            }
        }
        if !matches!(self.connection, Connection::Established(_)) {
            return;
        }
        if authorized {
            self.queue.finish(&Job::Connect);
        } else if result.unauthorized {
            // The next connection reads the Secret again.
            self.clear_objects();
            self.clear_applied();
            self.fail_connection("the member refuses the token of its secret (Unauthorized)");
        }
    }

    /// Starts a watch of the managed objects of a kind, unless it is already running.
    fn watch(&mut self, resource: Arc<ResourceType>, inputs: &mut Inputs<Message>) {
        let Connection::Established(kinds) = &self.connection else {
            return;
        };
        if self.objects.has_kind(&resource) {
            return;
        }
        let config = list_watch::Config {
            labels: Some(format!("{MANAGED}={MANAGED_VALUE}")),
            ..member_client::watch_config(self.budget.clone())
        };
        let (connection_id, kind) = (self.connection_id, kind_key(&resource));
        let stop = inputs.watch_member(kinds.client(), &resource.api, config, move |event| {
            Message::Watch(MemberEvent {
                connection_id,
                kind: kind.clone(),
                event: event.map_err(|error| error.to_string()),
            })
        });
        self.objects.add_kind(resource, stop);
    }

    fn start_connecting(&mut self, workers: &mut Workers<JobResult>) {
        let Some(cluster) = self.cluster.clone().filter(|_| self.address.is_some()) else {
            return;
        };
        if matches!(self.connection, Connection::Established(_)) {
            return;
        }
        self.queue.start(Job::Connect);
        let control_plane = self.executor.control_plane.clone();
        workers.start(async move {
            let client = member_client::connect(&control_plane, &cluster).await;
            JobResult::Connect(client.map_err(|error| error.to_string()))
        });
    }
}
