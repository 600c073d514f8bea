//! The task that owns the state: takes observations in, hands out work, and tells the members' tasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::Work;
use berth_events::EventRecorder;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::index::{Index, WorkKey};
use super::{PropagationError, PropagationOptions};
use crate::binding::record::resource;
use crate::binding::sync::Syncer;
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::execution::member;
use crate::informer::{Observation, inform};
use crate::overrides::OverrideKind;
use crate::queue::{Lane, Queue, until};
use crate::status::writer::StatusWriter;

/// How many messages may wait for the owner; informers wait when it is full.
pub(super) const INBOX: usize = 1024;
/// How long the reports of members are gathered before they are added up: several report at about the same time, and each
/// several times while pods start.
const GATHERING: Duration = Duration::from_millis(100);
/// How many messages are taken in before work is handed out.
const BATCH: usize = 256;

/// Where an observation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Bindings(BindingKind),
    Works,
    Clusters,
    Overrides(OverrideKind),
}

impl Source {
    pub(super) const ALL: [Self; 6] = [
        Self::Bindings(BindingKind::Namespaced),
        Self::Bindings(BindingKind::Cluster),
        Self::Works,
        Self::Clusters,
        Self::Overrides(OverrideKind::Namespaced),
        Self::Overrides(OverrideKind::Cluster),
    ];

    fn resource(self) -> ApiResource {
        match self {
            Self::Bindings(kind) => resource(kind),
            Self::Works => ApiResource::erase::<berth_api::Work>(&()),
            Self::Clusters => ApiResource::erase::<berth_api::Cluster>(&()),
            Self::Overrides(OverrideKind::Namespaced) => {
                ApiResource::erase::<berth_api::OverridePolicy>(&())
            }
            Self::Overrides(OverrideKind::Cluster) => {
                ApiResource::erase::<berth_api::ClusterOverridePolicy>(&())
            }
        }
    }
}

/// Something was observed.
pub(super) type Sighting = (Source, Observation);

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// The Works of a binding.
    Sync(BindingKey),
    /// The status of a binding and of its template.
    Status(BindingKey),
}

/// How a piece of work ended: a reason to try again, and whether it is worth a warning; and what was written, also where it
/// failed.
struct Done {
    job: Job,
    failure: Option<(String, bool)>,
    written: Vec<Work>,
}

/// What was seen of the Works of a binding while they were being written.
#[derive(Debug, Default)]
struct Meanwhile {
    /// Versions of those that have come or changed. Whether we wrote them is known when the writing is done.
    versions: Vec<String>,
    /// Those that have gone.
    gone: HashSet<WorkKey>,
}

/// The state, and the tasks that it has started.
pub(super) struct Owner {
    client: kube::Client,
    options: PropagationOptions,
    syncer: Syncer,
    statuses: StatusWriter,
    execution_events: EventRecorder,
    pub(super) index: Index,
    queue: Queue<Job, ()>,
    /// What was seen of the Works of a binding while they were being written.
    meanwhile: HashMap<BindingKey, Meanwhile>,
    /// Sources that have been listed completely.
    pub(super) listed: HashSet<Source>,
    members: HashMap<String, mpsc::Sender<member::Message>>,
    /// What the members' tasks are to be told.
    outbox: Vec<(String, member::Message)>,
    sender: mpsc::Sender<Sighting>,
    shutdown: CancellationToken,
    informers: JoinSet<()>,
    jobs: JoinSet<Done>,
    tasks: JoinSet<Result<(), JoinError>>,
}

impl Owner {
    pub(super) fn new(
        client: kube::Client,
        options: PropagationOptions,
        syncer: Syncer,
        statuses: StatusWriter,
        execution_events: EventRecorder,
        sender: mpsc::Sender<Sighting>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            client,
            options,
            syncer,
            statuses,
            execution_events,
            index: Index::default(),
            queue: Queue::default(),
            meanwhile: HashMap::new(),
            listed: HashSet::new(),
            members: HashMap::new(),
            outbox: Vec::new(),
            sender,
            shutdown,
            informers: JoinSet::new(),
            jobs: JoinSet::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Starts an informer.
    pub(super) fn watch(&mut self, source: Source) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &source.resource());
        let message = move |observation| (source, observation);
        let (sender, end) = (self.sender.clone(), self.shutdown.clone());
        self.informers.spawn(inform(
            api,
            watcher::Config::default(),
            message,
            sender,
            end,
        ));
    }

    /// Runs until it is told to stop. Writes that are on their way then are given up.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Sighting>,
    ) -> Result<(), PropagationError> {
        let shutdown = self.shutdown.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.queue.next_due();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(done) = self.jobs.join_next() => self.done(done?),
                count = inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        break;
                    }
                    for (source, observation) in batch.drain(..) {
                        self.take_in(source, observation);
                    }
                }
                Some(ended) = self.informers.join_next() => ended?,
                Some(ended) = self.tasks.join_next() => ended??,
                () = until(due) => self.bring_back(),
            }
            self.flush().await;
            self.hand_out();
        }
        // A member's task that panicked has to be heard of.
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    pub(super) fn enqueue(&mut self, job: Job) {
        // What users see first is their resource in the members.
        let lane = match job {
            Job::Sync(_) => Lane::Fast,
            Job::Status(_) => Lane::Slow,
        };
        self.queue.add(job, (), lane, |(), ()| ());
    }

    /// A member has reported about the resource of a binding.
    pub(super) fn reported(&mut self, binding: BindingKey) {
        self.queue.gather(Job::Status(binding), GATHERING);
    }

    /// Tells the task of a member something; the task is made if there is none.
    pub(super) fn tell(&mut self, cluster: &str, message: member::Message) {
        self.outbox.push((cluster.to_owned(), message));
    }

    /// Members' tasks never wait for anybody, so this does not wait for members.
    async fn flush(&mut self) {
        for (name, message) in std::mem::take(&mut self.outbox) {
            let sender = self.member(&name);
            // A task ends only when everything does, or when it has panicked, which is heard of elsewhere.
            let _ = sender.send(message).await;
            if !self.index.clusters.contains_key(&name) && !self.index.has_works(&name) {
                self.members.remove(&name);
            }
        }
    }

    fn member(&mut self, name: &str) -> mpsc::Sender<member::Message> {
        if let Some(sender) = self.members.get(name) {
            return sender.clone();
        }
        let (sender, inbox) = mpsc::channel(member::INBOX);
        self.tasks.spawn(member::run(
            name.to_owned(),
            self.client.clone(),
            self.execution_events.clone(),
            self.options.concurrent_works.get(),
            inbox,
            self.shutdown.clone(),
        ));
        self.members.insert(name.to_owned(), sender.clone());
        sender
    }

    fn bring_back(&mut self) {
        let now = Instant::now();
        while let Some((job, ())) = self.queue.take_due(now) {
            self.queue.add(job, (), Lane::Slow, |(), ()| ());
        }
    }

    fn done(&mut self, done: Done) {
        let Done {
            job,
            failure,
            written,
        } = done;
        if let Job::Sync(binding) = &job {
            self.explain(binding, written);
        }
        match failure {
            None => self.queue.finish(&job),
            Some((error, passing)) => {
                let failures = self.queue.fail(&job, ());
                if passing {
                    tracing::debug!(?job, failures, error, "not yet, trying again");
                } else {
                    tracing::warn!(?job, failures, error, "failed, trying again later");
                }
            }
        }
    }

    /// Takes over what was written, so that the next look does not compare with what was there before. Versions that we
    /// did not write are those of somebody else, such as of one of us that was killed while a write was on its way.
    fn explain(&mut self, binding: &BindingKey, written: Vec<Work>) {
        let meanwhile = self.meanwhile.remove(binding).unwrap_or_default();
        let ours = |version: &String| {
            let mut versions = written.iter().map(|work| &work.metadata.resource_version);
            versions.any(|own| own.as_ref() == Some(version))
        };
        if !meanwhile.versions.iter().all(ours) {
            self.enqueue(Job::Sync(binding.clone()));
        }
        for work in written {
            self.keep_answer(work, &meanwhile.gone);
        }
    }

    /// A Work has come, or its spec has changed: where we did not do that, it may have to be put right.
    pub(super) fn question(&mut self, binding: BindingKey, version: String) {
        let job = Job::Sync(binding);
        if !self.queue.is_running(&job) {
            self.enqueue(job);
        } else if let Job::Sync(binding) = job {
            let meanwhile = self.meanwhile.entry(binding).or_default();
            meanwhile.versions.push(version);
        }
    }

    /// A Work is gone: an answer that is on its way does not bring it back.
    pub(super) fn went(&mut self, binding: &BindingKey, work: WorkKey) {
        if self.queue.is_running(&Job::Sync(binding.clone())) {
            let meanwhile = self.meanwhile.entry(binding.clone()).or_default();
            meanwhile.gone.insert(work);
        }
    }

    /// Whether enough is known: without all Works each would be created again, and without all overrides
    /// resources would lose theirs.
    fn can_decide(&self) -> bool {
        Source::ALL
            .iter()
            .all(|source| self.listed.contains(source))
    }

    fn hand_out(&mut self) {
        if !self.can_decide() {
            return;
        }
        while self.jobs.len() < self.options.concurrent_bindings.get() {
            let Some((job, ())) = self.queue.next() else {
                return;
            };
            self.start(job);
        }
    }

    fn start(&mut self, job: Job) {
        let (Job::Sync(key) | Job::Status(key)) = &job;
        let Some(binding) = self.index.binding(key).cloned() else {
            self.queue.finish(&job);
            return;
        };
        self.queue.start(job.clone());
        match &job {
            Job::Sync(_) => {
                let input = self.index.sync_input(&binding);
                let syncer = self.syncer.clone();
                self.jobs.spawn(async move {
                    let mut written = Vec::new();
                    let failure = syncer.sync(input, &mut written).await.err();
                    let failure = failure.map(|error| (error.to_string(), error.is_passing()));
                    Done {
                        job,
                        failure,
                        written,
                    }
                });
            }
            Job::Status(_) => {
                let works = self.index.works_of(&binding).into_iter();
                let works: Vec<Arc<berth_api::Work>> =
                    works.map(|(_, work)| Arc::clone(work)).collect();
                let statuses = self.statuses.clone();
                self.jobs.spawn(async move {
                    let written = statuses.write(binding, works).await;
                    let failure = written.err().map(|error| (error.to_string(), false));
                    Done {
                        job,
                        failure,
                        written: Vec::new(),
                    }
                });
            }
        }
    }
}
