//! The task that owns the state: takes observations in, decides, and hands writes out.
//!
//! Everything that is known is in one place and changes in one task, so that no decision sees half a
//! change. Writes are on their way concurrently, at most one for each key, and tell how they ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::api::{Api, DynamicObject};
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::DetectorError;
use super::claim::PolicyKind;
use super::decision::{Cause, Plan};
use super::observation::{Message, Source};
use super::options::DetectorOptions;
use super::policy::{PolicyRecord, Standing};
use super::state::{State, Work, WorkKey};
use super::template::Template;
use super::unserved_apis::UnservedApis;
use super::writer::{Versions, WriteError, Writer};
use crate::informer::inform;
use crate::queue::{Lane, until};
use crate::resource_type::ResourceType;

/// How many messages may wait for the owner; informers wait when it is full.
pub(super) const INBOX: usize = 1024;
/// How many messages are taken in before writes are handed out.
const BATCH: usize = 256;

/// How a piece of work ended.
#[derive(Debug)]
struct Done {
    key: WorkKey,
    cause: Cause,
    result: Result<(), WriteError>,
}

/// The state, and the tasks that it has started.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) state: State,
    pub(super) unserved: UnservedApis,
    /// The kinds whose objects are templates, each with the end of its informer.
    pub(super) types: HashMap<Arc<ResourceType>, CancellationToken>,
    /// Sources that have been listed completely.
    pub(super) listed: HashSet<Source>,
    /// Whether the server has told what it serves.
    pub(super) discovered: bool,
    pub(super) writer: Writer,
    sender: mpsc::Sender<Message>,
    shutdown: CancellationToken,
    informers: JoinSet<()>,
    informed: HashSet<Source>,
    writes: JoinSet<Done>,
}

impl Owner {
    pub(super) fn new(
        options: DetectorOptions,
        writer: Writer,
        sender: mpsc::Sender<Message>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            state: State::new(options),
            unserved: UnservedApis::default(),
            types: HashMap::new(),
            listed: HashSet::new(),
            discovered: false,
            writer,
            sender,
            shutdown,
            informers: JoinSet::new(),
            informed: HashSet::new(),
            writes: JoinSet::new(),
        }
    }

    /// Runs until it is told to stop. Writes that are on their way then are given up.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Message>,
    ) -> Result<(), DetectorError> {
        let shutdown = self.shutdown.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.state.queue.next_due();
            let check_due = self.unserved.due();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Some(done) = self.writes.join_next() => self.done(done?),
                count = inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return Ok(());
                    }
                    for message in batch.drain(..) {
                        self.take_in(message);
                    }
                }
                Some(ended) = self.informers.join_next() => ended?,
                () = until(due) => self.bring_back(),
                () = until(check_due) => self.report_unserved_apis(),
            }
            self.hand_out();
        }
    }

    /// Starts an informer once for each source.
    pub(super) fn watch(&mut self, source: Source, resource: kube::core::ApiResource) {
        if self.informed.insert(source.clone()) {
            self.start_informer(source, resource, self.shutdown.child_token());
        }
    }

    /// Starts an informer for templates.
    pub(super) fn watch_templates(&mut self, resource: Arc<ResourceType>) {
        let end = self.shutdown.child_token();
        let api = resource.api.clone();
        self.types.insert(Arc::clone(&resource), end.clone());
        self.state.serve(Arc::clone(&resource));
        self.start_informer(Source::Templates(resource), api, end);
    }

    fn start_informer(
        &mut self,
        source: Source,
        resource: kube::core::ApiResource,
        end: CancellationToken,
    ) {
        let api: Api<DynamicObject> = Api::all_with(self.writer.client.clone(), &resource);
        let sender = self.sender.clone();
        let message = move |observation| Message::Observed(source.clone(), observation);
        self.informers.spawn(inform(
            api,
            watcher::Config::default(),
            message,
            sender,
            end,
        ));
    }

    /// Whether enough is known to decide: without all policies a claim would look abandoned, and without all
    /// bindings each one would be created again.
    fn can_decide(&self) -> bool {
        use crate::binding_key::BindingKind;
        let needed = [
            Source::Policies(PolicyKind::Namespaced),
            Source::Policies(PolicyKind::Cluster),
            Source::Bindings(BindingKind::Namespaced),
            Source::Bindings(BindingKind::Cluster),
        ];
        needed.iter().all(|source| self.listed.contains(source))
    }

    fn bring_back(&mut self) {
        let now = Instant::now();
        let queue = &mut self.state.queue;
        while let Some((key, cause)) = queue.take_due(now) {
            queue.add(key, cause, Lane::Slow, Cause::merge);
        }
    }

    fn done(&mut self, done: Done) {
        let Done { key, cause, result } = done;
        match result {
            Ok(()) => self.state.finish(&key),
            Err(error) => {
                if let (WorkKey::Template(key), WriteError::NoPriorityClass(_)) = (&key, &error) {
                    self.state.await_priority_class(key.clone());
                }
                let failures = self.state.queue.fail(&key, cause);
                if error.is_stale() {
                    tracing::debug!(?key, failures, %error, "based on an old version, trying again");
                } else {
                    tracing::warn!(?key, failures, %error, "write failed, trying again later");
                }
            }
        }
    }

    /// Decides what waits, and starts writes as far as they may be on their way at once.
    fn hand_out(&mut self) {
        if !self.can_decide() {
            return;
        }
        while self.writes.len() < self.state.options.concurrent_writes.get() {
            match self.state.next_work() {
                Some(Work::Template {
                    template,
                    cause,
                    plan,
                }) => self.carry_out(template, cause, plan),
                Some(Work::Policy(record)) => self.work_on_policy(record),
                None => return,
            }
        }
    }

    fn carry_out(&mut self, template: Arc<Template>, cause: Cause, plan: Plan) {
        let key = WorkKey::Template(template.key.clone());
        let binding = self.state.index.binding(&template.key.binding()).cloned();
        let writer = self.writer.clone();
        match plan {
            Plan::Leave | Plan::Wait | Plan::AwaitOverrides => self.state.finish(&key),
            Plan::Release(claim) => {
                self.start(key, cause, async move {
                    writer.release(&template, &claim, binding).await
                });
            }
            Plan::Apply(application) => {
                let versions = if cause == Cause::default() {
                    Versions::Ignored
                } else {
                    Versions::Followed
                };
                self.start(key, cause, async move {
                    writer
                        .apply(&template, &application, binding, versions)
                        .await
                });
            }
        }
    }

    fn work_on_policy(&mut self, record: Arc<PolicyRecord>) {
        let work = WorkKey::Policy(record.key.clone());
        let writer = self.writer.clone();
        match &record.standing {
            Standing::Incomplete(patch) => {
                let patch = patch.clone();
                self.start(work, Cause::default(), async move {
                    writer.complete(&record, &patch).await
                });
            }
            Standing::Leaving if record.has_finalizer() && self.nothing_claimed_by(&record) => {
                self.start(work, Cause::default(), async move {
                    writer.drop_finalizer(&record).await
                });
            }
            Standing::Leaving | Standing::Refused(_) | Standing::Ready(_) => {
                self.state.finish(&work);
            }
        }
    }

    fn start(
        &mut self,
        key: WorkKey,
        cause: Cause,
        work: impl Future<Output = Result<(), WriteError>> + Send + 'static,
    ) {
        self.state.queue.start(key.clone());
        self.writes.spawn(async move {
            let result = work.await;
            Done { key, cause, result }
        });
    }
}
