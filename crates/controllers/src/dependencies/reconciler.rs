//! The task that owns the state: takes observations in, decides, and hands out what has to be asked and written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_api::ResourceBinding;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::DependenciesError;
use super::attachment::plan;
use super::happenings;
use super::index::Index;
use super::record::{Kind, ObjectKey, Record, Role};
use super::strategy::Conflict;
use super::writer::{Explored, WriteError, Writer};
use crate::binding_key::BindingKey;
use crate::informer::{Observation, inform};
use crate::queue::{Lane, Queue, until};
use crate::resource_type::ResourceType;

/// How many observations may wait for the owner; watches wait when it is full.
pub(super) const INBOX: usize = 1024;
/// How many observations are taken in before work is handed out.
const BATCH: usize = 256;
/// How much is on its way to the server at the same time.
const CONCURRENT: usize = 32;

/// Where an observation comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// ResourceBindings.
    Bindings,
    /// Objects of a kind that is named.
    Objects(Kind),
}

/// Something was observed.
pub(super) type Sighting = (Source, Observation);

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// A binding that is followed: what does its template name? One that is left: may it go?
    Explore(BindingKey),
    /// The binding of an object that is named.
    Attach(ObjectKey),
}

/// How a piece of work ended.
struct Done {
    job: Job,
    outcome: Outcome,
}

enum Outcome {
    Explored(Arc<Record>, Result<Explored, WriteError>),
    Released(Arc<Record>, Result<DynamicObject, WriteError>),
    Attached {
        existing: Option<Arc<Record>>,
        informed: Vec<Arc<Record>>,
        conflict: Conflict,
        result: Result<DynamicObject, WriteError>,
    },
}

/// The state, and the tasks that it has started.
pub(super) struct Owner {
    pub(super) index: Index,
    pub(super) bindings_listed: bool,
    /// The conflicts that were told of, by attached binding.
    pub(super) told: HashMap<BindingKey, Conflict>,
    queue: Queue<Job, ()>,
    writer: Writer,
    sender: mpsc::Sender<Sighting>,
    shutdown: CancellationToken,
    watched: HashSet<Source>,
    informers: JoinSet<()>,
    jobs: JoinSet<Done>,
}

impl Owner {
    pub(super) fn new(
        writer: Writer,
        sender: mpsc::Sender<Sighting>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            index: Index::default(),
            bindings_listed: false,
            told: HashMap::new(),
            queue: Queue::default(),
            writer,
            sender,
            shutdown,
            watched: HashSet::new(),
            informers: JoinSet::new(),
            jobs: JoinSet::new(),
        }
    }

    /// Runs until it is told to stop. What is on its way then is given up.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Sighting>,
    ) -> Result<(), DependenciesError> {
        let bindings = ApiResource::erase::<ResourceBinding>(&());
        self.watch(Source::Bindings, &bindings);
        let shutdown = self.shutdown.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.queue.next_due();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Some(done) = self.jobs.join_next() => self.done(done?),
                count = inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                    for (source, observation) in batch.drain(..) {
                        self.take_in(source, observation);
                    }
                }
                Some(ended) = self.informers.join_next() => ended?,
                () = until(due) => self.bring_back(),
            }
            self.hand_out();
        }
    }

    /// Starts an informer once for each source.
    fn watch(&mut self, source: Source, resource: &ApiResource) {
        if !self.watched.insert(source.clone()) {
            return;
        }
        let api: Api<DynamicObject> = Api::all_with(self.writer.kinds.client(), resource);
        let message = move |observation| (source.clone(), observation);
        let (sender, end) = (self.sender.clone(), self.shutdown.clone());
        let config = watcher::Config::default();
        self.informers
            .spawn(inform(api, config, message, sender, end));
    }

    pub(super) fn enqueue(&mut self, job: Job) {
        self.queue.add(job, (), Lane::Fast, |(), ()| ());
    }

    fn bring_back(&mut self) {
        let now = Instant::now();
        while let Some((job, ())) = self.queue.take_due(now) {
            self.queue.add(job, (), Lane::Slow, |(), ()| ());
        }
    }

    fn hand_out(&mut self) {
        // Before all are known, one that is followed may look as if it were gone.
        if !self.bindings_listed {
            return;
        }
        while self.jobs.len() < CONCURRENT {
            let Some((job, ())) = self.queue.next() else {
                return;
            };
            match job {
                Job::Explore(key) => self.explore(key),
                Job::Attach(key) => self.attach(key),
            }
        }
    }

    fn explore(&mut self, key: BindingKey) {
        let Some(record) = self.index.binding(&key).cloned() else {
            self.queue.finish(&Job::Explore(key));
            return;
        };
        let writer = self.writer.clone();
        match record.role() {
            Role::Alone => self.queue.finish(&Job::Explore(key)),
            Role::Followed => self.start(Job::Explore(key), async move {
                let result = writer.explore(&record).await;
                Outcome::Explored(record, result)
            }),
            Role::Left if self.index.attached_to(&key).next().is_none() => {
                self.start(Job::Explore(key), async move {
                    let result = writer.release(&record).await;
                    Outcome::Released(record, result)
                });
            }
            // What follows it is looked at, and leads here again.
            Role::Left => {
                self.touch(&key);
                self.queue.finish(&Job::Explore(key));
            }
        }
    }

    fn attach(&mut self, key: ObjectKey) {
        let job = Job::Attach(key.clone());
        let Some(situation) = self.index.situation(&key) else {
            self.queue.finish(&job);
            return;
        };
        let plan = plan(&situation);
        let Some(write) = plan.write else {
            if let Some(existing) = &situation.existing {
                self.tell_of(existing, plan.conflict);
            }
            self.queue.finish(&job);
            return;
        };
        let informed = plan.informs.iter();
        let informed: Vec<Arc<Record>> = informed
            .filter_map(|key| self.index.binding(key).cloned())
            .collect();
        let (writer, conflict) = (self.writer.clone(), plan.conflict);
        self.start(job, async move {
            let existing = situation.existing;
            let key = key.binding();
            let result = writer.attach(&key, existing.as_deref(), write).await;
            Outcome::Attached {
                existing,
                informed,
                conflict,
                result,
            }
        });
    }

    fn start(&mut self, job: Job, work: impl Future<Output = Outcome> + Send + 'static) {
        self.queue.start(job.clone());
        self.jobs.spawn(async move {
            let outcome = work.await;
            Done { job, outcome }
        });
    }

    fn done(&mut self, done: Done) {
        let Done { job, outcome } = done;
        let failure = match outcome {
            Outcome::Explored(record, Ok(explored)) => self.explored(&record, explored),
            Outcome::Released(record, Ok(stored)) => {
                self.stored(&record, &stored);
                None
            }
            Outcome::Explored(_, Err(error)) | Outcome::Released(_, Err(error)) => Some(error),
            Outcome::Attached {
                existing,
                informed,
                conflict,
                result,
            } => self.attached(existing.as_deref(), &informed, conflict, result),
        };
        let Some(error) = failure else {
            self.queue.finish(&job);
            return;
        };
        let failures = self.queue.fail(&job, ());
        if error.is_stale() {
            tracing::debug!(?job, failures, %error, "based on an old version, trying again");
        } else {
            tracing::warn!(?job, failures, %error, "failed, trying again later");
        }
    }

    fn explored(&mut self, record: &Record, explored: Explored) -> Option<WriteError> {
        let key = &record.key;
        if let Some(stored) = explored.stored {
            self.stored(record, &stored);
        }
        for kind in explored.kinds {
            self.watch_objects(&kind);
        }
        let still = self.index.binding(key);
        let still = still.is_some_and(|now| now.uid == record.uid && now.role() == Role::Followed);
        if let Some(names) = explored.names.filter(|_| still) {
            // What it does not name any more, and what it names now.
            self.touch(key);
            self.index.names(key, names);
            self.touch(key);
        }
        let missing = explored.missing?;
        let told = happenings::not_followed(record, &missing.to_string());
        self.writer.events.record(told);
        Some(missing.into())
    }

    fn watch_objects(&mut self, kind: &ResourceType) {
        let source = Source::Objects(Kind {
            api_version: kind.api.api_version.clone(),
            kind: kind.api.kind.clone(),
        });
        self.watch(source, &kind.api);
    }

    fn attached(
        &mut self,
        existing: Option<&Record>,
        informed: &[Arc<Record>],
        conflict: Conflict,
        result: Result<DynamicObject, WriteError>,
    ) -> Option<WriteError> {
        let events = &self.writer.events;
        match result {
            Ok(stored) => {
                for followed in informed {
                    events.record(happenings::followed(followed));
                }
                if let Ok(record) = Record::read(&stored) {
                    self.tell_of(&record, conflict);
                }
                // What is new is brought by the watch.
                if let Some(existing) = existing {
                    self.stored(existing, &stored);
                }
                None
            }
            Err(error) => {
                if !error.is_stale() {
                    for followed in informed {
                        events.record(happenings::not_followed(followed, &error.to_string()));
                    }
                }
                Some(error)
            }
        }
    }

    /// Takes in what was written over a binding, unless the watch has brought something else.
    fn stored(&mut self, base: &Record, stored: &DynamicObject) {
        let known = self.index.binding(&base.key);
        if known.is_some_and(|known| known.version == base.version)
            && stored.metadata.deletion_timestamp.is_none()
        {
            self.binding_applied(stored);
        }
    }

    /// Tells of a conflict once.
    fn tell_of(&mut self, attached: &Record, conflict: Conflict) {
        let told = self.told.insert(attached.key.clone(), conflict);
        if told.unwrap_or_default() != conflict
            && let Some(message) = conflict.message()
        {
            let events = &self.writer.events;
            events.record(happenings::conflicting(attached, message));
        }
    }
}
