//! The task that owns all that is known of one member: its Cluster, its Works, what was seen in it.
//!
//! It never waits for the member: what has to be asked is asked by workers, a bounded number at a time, and
//! watches send what they see. So it always takes in what others tell it, however slow the member is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::well_known::{MANAGED, MANAGED_VALUE};
use berth_api::{Cluster, Work, names};
use berth_events::EventRecorder;
use kube::api::{Api, DynamicObject};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::job::{Report, Task, Worker};
use super::objects::{KindView, Known, ObjectKey};
use super::record::WorkRecord;
use super::step::{Standing, step};
use crate::informer::{Observation, inform_of_member};
use crate::interpreter::kind_of;
use crate::kinds::Kinds;
use crate::member_client;
use crate::queue::{Lane, Queue, until};
use crate::resource_type::ResourceType;

/// How many messages may wait for a member's task; it takes them in at once.
pub(crate) const INBOX: usize = 1024;
/// How many messages are taken in before work is handed out.
const BATCH: usize = 256;
/// How long what is seen of an object is gathered before its Work is looked at: the status of a workload changes several
/// times while its pods start.
const GATHERING: Duration = Duration::from_millis(100);
/// The longest pause before something is tried again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What a member's task is told.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// The Cluster, or that there is none.
    Cluster(Option<Arc<Cluster>>),
    /// A Work is new or changed.
    Work(Arc<Work>),
    /// A Work is gone.
    WorkGone(String),
}

/// What a watch of a member has seen.
#[derive(Debug)]
struct Sighting {
    /// Which connection: what comes from an earlier one does not count.
    connection: u64,
    kind: KindKey,
    observation: Observation,
}

/// The `apiVersion` and `kind` of objects.
type KindKey = (String, String);

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A client for the member.
    Connection,
    /// A Work.
    Work(String),
}

/// How a piece of work ended.
enum Done {
    Connected(Result<kube::Client, String>),
    Worked(String, Box<Report>),
}

/// The way to the member.
#[derive(Debug)]
enum Connection {
    /// None yet.
    Missing,
    /// There is none, for this reason.
    Failed(String),
    /// A client.
    Made(Kinds),
}

/// The state of a member, and the tasks that it has started.
pub(crate) struct Member {
    name: String,
    execution_namespace: String,
    workers: usize,
    worker: Worker,
    cluster: Option<Arc<Cluster>>,
    standing: Standing,
    address: Option<Address>,
    connection: Connection,
    /// Counts connections.
    connections: u64,
    works: HashMap<String, WorkRecord>,
    views: HashMap<KindKey, KindView>,
    queue: Queue<Key, ()>,
    jobs: JoinSet<Done>,
    watches: JoinSet<()>,
    sightings: mpsc::Sender<Sighting>,
    shutdown: CancellationToken,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Runs the task of a member until it is told to stop, or nobody tells it anything any more.
pub(crate) async fn run(
    name: String,
    control_plane: kube::Client,
    events: EventRecorder,
    workers: usize,
    mut inbox: mpsc::Receiver<Message>,
    shutdown: CancellationToken,
) -> Result<(), JoinError> {
    // The watches end with this call.
    let shutdown = shutdown.child_token();
    let _guard = shutdown.clone().drop_guard();
    let (sightings, mut seen) = mpsc::channel(INBOX);
    let mut member = Member {
        execution_namespace: names::execution_namespace(&name),
        name,
        workers,
        worker: Worker {
            control_plane,
            events,
        },
        cluster: None,
        standing: Standing::Gone,
        address: None,
        connection: Connection::Missing,
        connections: 0,
        works: HashMap::new(),
        views: HashMap::new(),
        queue: Queue::with_longest_delay(LONGEST_PAUSE),
        jobs: JoinSet::new(),
        watches: JoinSet::new(),
        sightings,
        shutdown: shutdown.clone(),
    };
    let mut messages = Vec::with_capacity(BATCH);
    let mut sighted = Vec::with_capacity(BATCH);
    loop {
        let due = member.queue.next_due();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            Some(done) = member.jobs.join_next() => member.done(done?),
            count = inbox.recv_many(&mut messages, BATCH) => {
                if count == 0 {
                    return Ok(());
                }
                for message in messages.drain(..) {
                    member.take_in(message);
                }
            }
            _ = seen.recv_many(&mut sighted, BATCH) => {
                for sighting in sighted.drain(..) {
                    member.see(sighting);
                }
            }
            Some(ended) = member.watches.join_next() => ended?,
            () = until(due) => member.bring_back(),
        }
        member.hand_out();
    }
}

impl Member {
    fn take_in(&mut self, message: Message) {
        match message {
            Message::Cluster(cluster) => self.take_cluster(cluster),
            Message::Work(work) => self.take_work(work),
            Message::WorkGone(name) => {
                self.works.remove(&name);
            }
        }
    }

    fn take_cluster(&mut self, cluster: Option<Arc<Cluster>>) {
        let standing = Standing::of(cluster.as_deref());
        let address = cluster.as_deref().and_then(Address::of);
        self.cluster = cluster;
        if address != self.address {
            self.address = address;
            self.disconnect();
        }
        if standing != self.standing {
            tracing::debug!(
                cluster = self.name,
                ?standing,
                "the cluster's standing changed"
            );
            self.standing = standing;
            self.look_at_all();
        }
    }

    fn take_work(&mut self, work: Arc<Work>) {
        let name = work.metadata.name.clone().unwrap_or_default();
        match self.works.get_mut(&name) {
            None => {
                self.works.insert(name.clone(), WorkRecord::new(work));
            }
            Some(known) => {
                if !known.take(work) {
                    return;
                }
            }
        }
        self.look_at(name, Lane::Fast);
    }

    /// Forgets the client and all that was seen through it.
    fn disconnect(&mut self) {
        self.connection = Connection::Missing;
        self.forget_what_was_seen();
        self.look_at_all();
    }

    fn forget_what_was_seen(&mut self) {
        self.connections += 1;
        self.views.clear();
        for record in self.works.values_mut() {
            record.unsettle();
        }
    }

    fn look_at(&mut self, work: String, lane: Lane) {
        self.queue.add(Key::Work(work), (), lane, |(), ()| ());
    }

    fn look_at_all(&mut self) {
        let names: Vec<String> = self.works.keys().cloned().collect();
        for name in names {
            self.look_at(name, Lane::Slow);
        }
    }

    /// Takes in what a watch has seen: whose Work it is has to be looked at.
    fn see(&mut self, sighting: Sighting) {
        if sighting.connection != self.connections {
            return;
        }
        let Some(view) = self.views.get_mut(&sighting.kind) else {
            return;
        };
        let complete = matches!(sighting.observation, Observation::Listed(_));
        let changed = view.observe(sighting.observation);
        let namespace = &self.execution_namespace;
        let mut works: Vec<String> = changed
            .iter()
            .filter_map(|seen| seen.work(namespace))
            .collect();
        if complete {
            let (api_version, kind) = &sighting.kind;
            let of_kind = |record: &WorkRecord| {
                let mut manifests = record.work().spec.workload.manifests.iter();
                manifests.any(|manifest| kind_of(manifest) == (api_version, kind))
            };
            let all = self.works.iter().filter(|(_, record)| of_kind(record));
            works.extend(all.map(|(name, _)| name.clone()));
        }
        for work in works {
            if self.works.contains_key(&work) {
                self.queue.gather(Key::Work(work), GATHERING);
            }
        }
    }

    fn bring_back(&mut self) {
        let now = Instant::now();
        while let Some((key, ())) = self.queue.take_due(now) {
            self.queue.add(key, (), Lane::Slow, |(), ()| ());
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Connected(outcome) => self.connected(outcome),
            Done::Worked(name, report) => self.worked(&name, *report),
        }
    }

    fn connected(&mut self, outcome: Result<kube::Client, String>) {
        match outcome {
            Ok(client) => {
                // Whether the member lets us in is not known yet.
                self.queue.release(&Key::Connection);
                self.connection = Connection::Made(Kinds::new(client));
                self.look_at_all();
            }
            Err(reason) => self.fail_connection(&reason),
        }
    }

    /// There is no way to the member for now: its Works are told, once.
    fn fail_connection(&mut self, reason: &str) {
        self.queue.fail(&Key::Connection, ());
        let cluster = &self.name;
        let why = format!("no connection to cluster {cluster}: {reason}");
        if !matches!(&self.connection, Connection::Failed(known) if *known == why) {
            tracing::warn!(cluster, reason, "no connection, trying again later");
            let reason = why;
            self.connection = Connection::Failed(reason);
            self.look_at_all();
        }
    }

    fn worked(&mut self, name: &str, report: Report) {
        // An answer may tell of a change that the watch has not told of yet, and then never will as something new.
        let mut newer = false;
        if let Some(record) = self.works.get_mut(name) {
            newer = report.work.is_some_and(|work| record.take(Arc::new(work)));
            record.settle(report.settled);
        }
        let answered = !report.kinds.is_empty() && !report.unauthorized;
        for resource in report.kinds {
            self.watch(resource);
        }
        for (resource, seen) in report.seen {
            let key = (resource.api.api_version.clone(), resource.api.kind.clone());
            if let Some(view) = self.views.get_mut(&key) {
                view.keep_answer(seen);
            }
        }
        if newer {
            self.look_at(name.to_owned(), Lane::Fast);
        }
        let key = Key::Work(name.to_owned());
        match report.failure {
            None => self.queue.finish(&key),
            Some(error) => {
                let failures = self.queue.fail(&key, ());
                tracing::debug!(
                    cluster = self.name, work = name, failures, %error,
                    "not done, trying again later"
                );
            }
        }
        if !matches!(self.connection, Connection::Made(_)) {
            return;
        }
        if answered {
            self.queue.finish(&Key::Connection);
        } else if report.unauthorized {
            // The next connection is made with what the secret says then.
            self.forget_what_was_seen();
            self.fail_connection("the member refuses the token of its secret (Unauthorized)");
        }
    }

    /// Watches the objects of a kind that came from here, once.
    fn watch(&mut self, resource: Arc<ResourceType>) {
        let Connection::Made(kinds) = &self.connection else {
            return;
        };
        let kind = (resource.api.api_version.clone(), resource.api.kind.clone());
        // A kind may have gone and come back as something else.
        let watched = self.views.get(&kind);
        if watched.is_some_and(|view| view.is_of(&resource)) {
            return;
        }
        let end = self.shutdown.child_token();
        let view = KindView::new(Arc::clone(&resource), end.clone());
        self.views.insert(kind.clone(), view);
        let api: Api<DynamicObject> = Api::all_with(kinds.client(), &resource.api);
        let config = member_client::watching().labels(&format!("{MANAGED}={MANAGED_VALUE}"));
        let connection = self.connections;
        let message = move |observation| Sighting {
            connection,
            kind: kind.clone(),
            observation,
        };
        let sightings = self.sightings.clone();
        self.watches
            .spawn(inform_of_member(api, config, message, sightings, end));
    }

    /// Starts what waits, as far as it may be on its way at once.
    fn hand_out(&mut self) {
        while self.jobs.len() < self.workers {
            let Some((key, ())) = self.queue.next() else {
                return;
            };
            match key {
                Key::Connection => self.start_connecting(),
                Key::Work(name) => self.start_work(name),
            }
        }
    }

    fn start_connecting(&mut self) {
        let Some(cluster) = self.cluster.clone().filter(|_| self.address.is_some()) else {
            return;
        };
        if matches!(self.connection, Connection::Made(_)) {
            return;
        }
        self.queue.start(Key::Connection);
        let control_plane = self.worker.control_plane.clone();
        self.jobs.spawn(async move {
            let connecting = member_client::connect(&control_plane, &cluster).await;
            Done::Connected(connecting.map_err(|error| error.to_string()))
        });
    }

    fn start_work(&mut self, name: String) {
        let key = Key::Work(name.clone());
        let Some(record) = self.works.get(&name) else {
            self.queue.finish(&key);
            return;
        };
        let step = step(record.work(), self.standing);
        let member = match &self.connection {
            Connection::Made(kinds) => Ok(kinds.clone()),
            Connection::Failed(reason) => Err(reason.clone()),
            // The Work is looked at again once it is known whether there is a connection.
            Connection::Missing if step.needs_member() => {
                self.queue.finish(&key);
                self.queue.add(Key::Connection, (), Lane::Fast, |(), ()| ());
                return;
            }
            Connection::Missing => Err(String::new()),
        };
        let manifests = record.work().spec.workload.manifests.iter();
        let known = manifests.map(|manifest| {
            let (api_version, kind) = kind_of(manifest);
            let kind = (api_version.to_owned(), kind.to_owned());
            match self.views.get(&kind) {
                Some(view) => view.get(&ObjectKey::of(manifest)),
                None => Known::Unknown,
            }
        });
        let task = Task {
            work: Arc::clone(record.work()),
            cluster: self.name.clone(),
            step,
            member,
            known: known.collect(),
            settled: record.settled().to_vec(),
        };
        self.queue.start(key);
        let worker = self.worker.clone();
        self.jobs.spawn(async move {
            let report = worker.run(task).await;
            Done::Worked(name, Box::new(report))
        });
    }
}
