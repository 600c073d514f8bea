//! The service: one task that owns the fleet, the bindings and the queue, and decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::canonical::placement_json;
use berth_core::{Engine, EngineOptions, Fleet, Request, Snapshot};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding::{Binding, BindingKey};
use crate::condition::{Reason, stored};
use crate::events::{self, Note, NoteType, Recorder};
use crate::fleet_watch::{Concern, Meaning, Member};
use crate::health::{self, ListenError, Probes};
use crate::lease::{Candidate, Leadership};
use crate::metrics::{CycleResult, Incoming, Metrics};
use crate::need::{ScheduleType, schedule_type};
use crate::options::{BindAddress, Options};
use crate::plan::{Plan, REASON_FAILED};
use crate::queue::{Queue, Verdict};
use crate::rate_limit::RateLimit;
use crate::watch::{self, Seen};
use crate::writer::{Report, Writer};
use crate::{connect, filter};

/// How many watch events may wait for the owner.
const INBOX: usize = 4096;
/// How many plans are carried out at the same time.
const WRITES_IN_FLIGHT: usize = 64;
/// How many decisions are made between two looks at the inbox.
const DECISIONS_PER_TURN: usize = 64;
/// How long writes in flight are waited for at the end.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Why the service ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] connect::ConnectError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The engine refuses its options.
    #[error("cannot start the engine: {0}")]
    Engine(String),
    /// Another candidate leads now.
    #[error("lost the leader election")]
    LeadershipLost,
}

/// Runs the scheduler until the token is cancelled.
///
/// # Errors
/// When it cannot begin, or when it loses its leadership: the process should end then.
pub async fn run(options: Options, cancel: CancellationToken) -> Result<(), ServiceError> {
    let config = connect::config(&options.target).await?;
    let client = connect::client(config)?;
    run_with_client(options, client, cancel).await
}

/// Runs the scheduler with a client that is there already.
///
/// # Errors
/// As [`run`].
pub async fn run_with_client(
    options: Options,
    client: kube::Client,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    let metrics = Metrics::default();
    let probes = Probes::new(metrics.clone());
    serve(&options, &probes, &cancel).await?;

    // Tasks of this service end with it, however it ends.
    let cancel = cancel.child_token();
    let _end_of_tasks = cancel.clone().drop_guard();
    let (candidate, leadership) = match &options.lease {
        Some(lease) => {
            let (candidate, leadership) = Candidate::new(client.clone(), lease.clone());
            (Some(candidate), leadership)
        }
        None => (None, Leadership::unlimited()),
    };
    let limit = Arc::new(RateLimit::new(options.rate));
    let (recorder, recording) = events::start(
        client.clone(),
        &options.scheduler_name,
        limit.clone(),
        cancel.clone(),
    );
    let writer = Writer {
        client: client.clone(),
        limit,
        leadership,
    };
    let (sender, inbox) = mpsc::channel(INBOX);
    start_watches(&client, &sender, &cancel);
    let (lead_sender, lead_receiver) = tokio::sync::watch::channel(candidate.is_none());
    let service = Service::new(&options, writer, recorder, metrics, probes)?;
    let owner = tokio::spawn(service.run(inbox, lead_receiver, cancel.clone()));

    let outcome = match candidate {
        None => {
            cancel.cancelled().await;
            Ok(())
        }
        Some(candidate) => campaign(candidate, &lead_sender, &cancel).await,
    };
    cancel.cancel();
    let _ = owner.await;
    let _ = recording.await;
    match outcome {
        Ok(()) => Ok(()),
        Err(Campaign::Lost) => Err(ServiceError::LeadershipLost),
        Err(Campaign::Release(mut candidate)) => {
            // The writes in flight are over: whoever comes next meets no write of ours.
            candidate.release().await;
            Ok(())
        }
    }
}

enum Campaign {
    Lost,
    Release(Box<Candidate>),
}

/// Stands for office, and tells the service when it may decide.
async fn campaign(
    mut candidate: Candidate,
    leading: &tokio::sync::watch::Sender<bool>,
    cancel: &CancellationToken,
) -> Result<(), Campaign> {
    if !candidate.acquire(cancel).await {
        return Ok(());
    }
    leading.send_replace(true);
    if candidate.hold(cancel).await {
        Err(Campaign::Release(Box::new(candidate)))
    } else {
        Err(Campaign::Lost)
    }
}

async fn serve(
    options: &Options,
    probes: &Probes,
    cancel: &CancellationToken,
) -> Result<(), ServiceError> {
    // Equal addresses share one server; every server answers every path.
    let mut addresses = vec![];
    for address in [options.health, options.metrics] {
        if let BindAddress::At(address) = address
            && (address.port() == 0 || !addresses.contains(&address))
        {
            addresses.push(address);
        }
    }
    for address in addresses {
        let bound = health::serve(address, probes.clone(), cancel.clone()).await?;
        tracing::info!(address = %bound, "serving health and metrics");
    }
    Ok(())
}

fn start_watches(client: &kube::Client, sender: &mpsc::Sender<Input>, cancel: &CancellationToken) {
    let (clusters, bindings, cluster_bindings) = (
        Api::all(client.clone()),
        Api::all(client.clone()),
        Api::all(client.clone()),
    );
    tokio::spawn(watch::run(
        clusters,
        sender.clone(),
        Input::Cluster,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        bindings,
        sender.clone(),
        Input::Binding,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        cluster_bindings,
        sender.clone(),
        Input::ClusterBinding,
        cancel.clone(),
    ));
}

/// What the watches tell the owner.
#[derive(Debug)]
enum Input {
    Cluster(Seen<Cluster>),
    Binding(Seen<berth_api::ResourceBinding>),
    ClusterBinding(Seen<berth_api::ClusterResourceBinding>),
}

/// A plan that was carried out.
#[derive(Debug)]
struct Finished {
    key: BindingKey,
    resource: ObjectReference,
    plan: Plan,
    report: Report,
    schedule_type: ScheduleType,
    began: Instant,
}

#[derive(Debug)]
struct Entry {
    binding: Arc<Binding>,
    /// The newest generation that a write of ours produced.
    own_generation: i64,
}

/// Which of the three watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

struct Service {
    scheduler_name: String,
    multiple_pod_templates: bool,
    engine: Engine,
    fleet: Fleet,
    snapshot: Option<Arc<Snapshot>>,
    members: HashMap<String, Member>,
    leaving: HashSet<String>,
    bindings: HashMap<BindingKey, Entry>,
    queue: Queue,
    /// What a list in progress has named so far.
    listing: HashMap<Source, HashSet<String>>,
    synced: HashSet<Source>,
    leading: bool,
    writer: Writer,
    writes: JoinSet<Finished>,
    recorder: Recorder,
    metrics: Metrics,
    probes: Probes,
}

impl Service {
    fn new(
        options: &Options,
        writer: Writer,
        recorder: Recorder,
        metrics: Metrics,
        probes: Probes,
    ) -> Result<Self, ServiceError> {
        let in_use = |name: &&str| options.plugins.contains(name);
        for plugin in berth_core::IN_TREE.into_iter().filter(in_use) {
            tracing::info!("Enable Scheduler plugin {plugin:?}");
        }
        let engine = Engine::new(EngineOptions {
            plugins: options.plugins.clone(),
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
        })
        .map_err(|error| ServiceError::Engine(error.to_string()))?;
        Ok(Self {
            scheduler_name: options.scheduler_name.clone(),
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            engine,
            fleet: Fleet::new(),
            snapshot: None,
            members: HashMap::new(),
            leaving: HashSet::new(),
            bindings: HashMap::new(),
            queue: Queue::default(),
            listing: HashMap::new(),
            synced: HashSet::new(),
            leading: false,
            writer,
            writes: JoinSet::new(),
            recorder,
            metrics,
            probes,
        })
    }

    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Input>,
        mut lead: tokio::sync::watch::Receiver<bool>,
        cancel: CancellationToken,
    ) {
        if *lead.borrow_and_update() {
            self.lead();
        }
        loop {
            let now = Instant::now();
            self.queue.flush(now);
            self.decide(now);
            self.report_queue(now);
            let busy = self.may_decide();
            let next_flush = self.queue.next_flush();
            let pause = async {
                if busy {
                    return;
                }
                match next_flush {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Ok(()) = lead.changed() => {
                    if *lead.borrow_and_update() {
                        self.lead();
                    }
                }
                Some(finished) = self.writes.join_next(), if !self.writes.is_empty() => {
                    self.finish(finished);
                    while let Some(finished) = self.writes.try_join_next() {
                        self.finish(finished);
                    }
                }
                input = inbox.recv() => {
                    let Some(input) = input else { break };
                    self.take(input);
                    while let Ok(input) = inbox.try_recv() {
                        self.take(input);
                    }
                }
                () = pause => {}
            }
        }
        let last = async {
            while let Some(finished) = self.writes.join_next().await {
                if let Ok(finished) = finished {
                    self.record(&finished);
                }
            }
        };
        if tokio::time::timeout(LAST_WRITES, last).await.is_err() {
            tracing::warn!("stopped before all writes were answered");
        }
    }

    fn may_decide(&self) -> bool {
        self.leading
            && self.synced.len() == 3
            && self.writes.len() < WRITES_IN_FLIGHT
            && self.queue.has_ready()
    }

    fn report_queue(&self, now: Instant) {
        let oldest = self
            .queue
            .oldest_ready()
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.metrics.queue(self.queue.depth(), oldest);
    }

    /// Begins to lead: every binding of ours is looked at once.
    fn lead(&mut self) {
        self.leading = true;
        self.metrics.leading(true);
        let now = Instant::now();
        for (key, entry) in &self.bindings {
            if filter::passes(&entry.binding, &self.scheduler_name) {
                self.queue.push(key, entry.binding.spec.priority(), now);
                self.metrics.incoming(Incoming::BindingAdd);
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Cluster(seen) => self.take_cluster(seen),
            Input::Binding(seen) => self.take_binding(Source::Bindings, seen),
            Input::ClusterBinding(seen) => self.take_binding(Source::ClusterBindings, seen),
        }
    }

    fn list_ends(&mut self, source: Source) {
        self.synced.insert(source);
        if self.synced.len() == 3 && !self.probes.is_ready() {
            self.probes.set_ready();
            tracing::info!(
                clusters = self.members.len(),
                bindings = self.bindings.len(),
                "caches are filled"
            );
        }
    }

    fn take_cluster(&mut self, seen: Seen<Cluster>) {
        match seen {
            Seen::ListBegins => {
                self.listing.insert(Source::Clusters, HashSet::new());
            }
            Seen::Present(cluster) => self.cluster_is(&cluster),
            Seen::Malformed(metadata, error) => {
                let name = metadata.name.unwrap_or_default();
                tracing::warn!(
                    cluster = name,
                    error,
                    "cannot read a cluster; its last readable state is kept"
                );
                if let Some(named) = self.listing.get_mut(&Source::Clusters) {
                    named.insert(name);
                }
            }
            Seen::Gone(metadata) => self.cluster_gone(metadata.name.as_deref().unwrap_or_default()),
            Seen::ListEnds => {
                let named = self.listing.remove(&Source::Clusters).unwrap_or_default();
                let gone: Vec<String> = self
                    .members
                    .keys()
                    .filter(|name| !named.contains(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.cluster_gone(&name);
                }
                self.list_ends(Source::Clusters);
            }
        }
    }

    fn cluster_is(&mut self, cluster: &Cluster) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if let Some(named) = self.listing.get_mut(&Source::Clusters) {
            named.insert(name.clone());
        }
        self.fleet.apply(cluster);
        self.snapshot = None;
        let member = Member::new(cluster);
        if member.deleting() {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(&name);
        }
        let new = member.cluster.clone();
        let meaning = Meaning::of(self.members.get(&name), &member);
        let old = self.members.insert(name, member);
        if meaning.reconcile
            && let Some(old) = old
        {
            self.reconcile_placed(&old.cluster, &new);
        }
        if meaning.may_fit || meaning.more_room {
            self.wake(&new, meaning);
        }
    }

    /// A Cluster is gone. Where no finalizer held it, nobody has seen it leaving, so what is placed on it is
    /// looked at now; its name counts as leaving until it comes back.
    fn cluster_gone(&mut self, name: &str) {
        self.fleet.remove(name);
        self.snapshot = None;
        self.members.remove(name);
        self.leaving.insert(name.to_owned());
        if !self.leading {
            return;
        }
        let now = Instant::now();
        for (key, entry) in &self.bindings {
            let binding = &entry.binding;
            let is_target = binding.spec.clusters.iter().any(|c| c.name == name);
            if is_target && filter::in_charge(binding, &self.scheduler_name) {
                self.queue.push(key, binding.spec.priority(), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Looks again at the bindings that a changed cluster concerned before, or concerns now.
    fn reconcile_placed(&mut self, old: &Cluster, new: &Cluster) {
        if !self.leading {
            return;
        }
        let now = Instant::now();
        let (mut before, mut after) = (Concern::new(old), Concern::new(new));
        for (key, entry) in &self.bindings {
            let binding = &entry.binding;
            let Some(placement) = &binding.spec.placement else {
                continue;
            };
            if filter::in_charge(binding, &self.scheduler_name)
                && (before.reconciles(binding, placement) || after.reconciles(binding, placement))
            {
                self.queue.push(key, binding.spec.priority(), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Wakes the waiting bindings that a changed cluster can help.
    fn wake(&mut self, cluster: &Cluster, meaning: Meaning) {
        let mut concern = Concern::new(cluster);
        let mut helped = Vec::new();
        for key in self.queue.sleepers() {
            let Some(entry) = self.bindings.get(key) else {
                continue;
            };
            let no_fit = stored(&entry.binding.status)
                .is_some_and(|c| c.reason == Reason::NoClusterFit.as_str());
            let relevant = if no_fit {
                meaning.may_fit
            } else {
                meaning.may_fit || meaning.more_room
            };
            if relevant
                && entry
                    .binding
                    .spec
                    .placement
                    .as_ref()
                    .is_some_and(|p| concern.could_be_target(p))
            {
                helped.push(key.clone());
            }
        }
        let now = Instant::now();
        for key in helped {
            self.queue.wake(&key, now);
            self.metrics.incoming(Incoming::ClusterChanged);
        }
    }

    fn take_binding<K: Into<Binding>>(&mut self, source: Source, seen: Seen<K>) {
        match seen {
            Seen::ListBegins => {
                self.listing.insert(source, HashSet::new());
            }
            Seen::Present(object) => {
                let binding: Binding = (*object).into();
                if let Some(named) = self.listing.get_mut(&source) {
                    named.insert(binding.key.to_string());
                }
                self.binding_is(binding);
            }
            Seen::Malformed(metadata, error) => {
                let key = BindingKey::of(&metadata);
                if let Some(named) = self.listing.get_mut(&source) {
                    named.insert(key.to_string());
                }
                self.malformed(&key, &metadata, &error);
            }
            Seen::Gone(metadata) => self.binding_gone(&BindingKey::of(&metadata)),
            Seen::ListEnds => {
                let named = self.listing.remove(&source).unwrap_or_default();
                let namespaced = source == Source::Bindings;
                let gone: Vec<BindingKey> = self
                    .bindings
                    .keys()
                    .filter(|key| {
                        key.namespace.is_some() == namespaced && !named.contains(&key.to_string())
                    })
                    .cloned()
                    .collect();
                for key in gone {
                    self.binding_gone(&key);
                }
                self.list_ends(source);
            }
        }
    }

    fn binding_is(&mut self, binding: Binding) {
        let key = binding.key.clone();
        let passes = filter::passes(&binding, &self.scheduler_name);
        let event = match self.bindings.get(&key) {
            None => passes.then_some(Incoming::BindingAdd),
            Some(entry) if !binding.at_least_as_new_as(&entry.binding) => return,
            Some(entry) if !passes => {
                if filter::passes(&entry.binding, &self.scheduler_name) {
                    self.queue.remove(&key);
                }
                None
            }
            Some(entry) if !filter::passes(&entry.binding, &self.scheduler_name) => {
                Some(Incoming::BindingAdd)
            }
            Some(entry) => {
                let generation = binding.generation();
                (generation != entry.binding.generation() && generation > entry.own_generation)
                    .then_some(Incoming::BindingUpdate)
            }
        };
        let priority = binding.spec.priority();
        self.remember(binding, 0);
        if let Some(event) = event
            && self.leading
        {
            self.queue.push(&key, priority, Instant::now());
            self.metrics.incoming(event);
        }
    }

    /// Keeps a binding, and the generation that a write of ours gave it.
    fn remember(&mut self, binding: Binding, own_generation: i64) {
        let key = binding.key.clone();
        match self.bindings.get_mut(&key) {
            Some(entry) => {
                entry.own_generation = entry.own_generation.max(own_generation);
                if entry.binding.metadata.uid != binding.metadata.uid {
                    entry.own_generation = own_generation;
                }
                if binding.at_least_as_new_as(&entry.binding) {
                    entry.binding = Arc::new(binding);
                }
            }
            None => {
                self.bindings.insert(
                    key,
                    Entry {
                        binding: Arc::new(binding),
                        own_generation,
                    },
                );
            }
        }
    }

    fn binding_gone(&mut self, key: &BindingKey) {
        self.bindings.remove(key);
        self.queue.remove(key);
    }

    fn malformed(&mut self, key: &BindingKey, metadata: &ObjectMeta, error: &str) {
        tracing::warn!(binding = %key, error, "cannot read a binding");
        if self.leading {
            let message = format!("cannot read {}: {error}", key.kind());
            self.recorder.record(
                &binding_reference(key, metadata),
                Note {
                    note_type: NoteType::Warning,
                    reason: REASON_FAILED,
                    message,
                },
            );
        }
    }

    /// Decides as long as there is something to decide and room for its writes.
    fn decide(&mut self, now: Instant) {
        for _ in 0..DECISIONS_PER_TURN {
            if !self.may_decide() {
                return;
            }
            let Some(key) = self.queue.pop() else { return };
            self.cycle(&key, now);
        }
    }

    fn cycle(&mut self, key: &BindingKey, now: Instant) {
        let began = Instant::now();
        let Some(binding) = self.bindings.get(key).map(|entry| entry.binding.clone()) else {
            self.queue.done(key, Verdict::Done, now);
            return;
        };
        if binding.deleting() {
            self.say_deleting(&binding);
            self.queue.done(key, Verdict::Done, now);
            return;
        }
        // It may have been suspended, or handed over, while it was in the queue.
        if !filter::in_charge(&binding, &self.scheduler_name) {
            self.queue.done(key, Verdict::Done, now);
            return;
        }
        let (plan, schedule_type) = self.plan(&binding);
        if plan.is_empty() {
            if plan.verdict != Verdict::Done {
                self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            }
            if let Some(schedule_type) = schedule_type {
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
            }
            self.queue.done(key, plan.verdict, now);
            return;
        }
        let writer = self.writer.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let resource = template_reference(&binding);
            let report = writer.write(binding, &plan).await;
            let schedule_type = schedule_type.unwrap_or(ScheduleType::Reconcile);
            Finished {
                key,
                resource,
                plan,
                report,
                schedule_type,
                began,
            }
        });
    }

    /// What one cycle of a binding writes, and why it ran.
    fn plan(&mut self, binding: &Binding) -> (Plan, Option<ScheduleType>) {
        let Some(placement) = &binding.spec.placement else {
            // Nothing can be decided until the binding gets one, and that is an update.
            return (Plan::nothing(Verdict::Done), None);
        };
        let json = match placement_json(placement) {
            Ok(json) => json,
            Err(error) => {
                return (
                    Plan::failure(
                        binding,
                        Reason::SchedulerError,
                        error.to_string(),
                        Verdict::Wait,
                    ),
                    None,
                );
            }
        };
        let leaving = |name: &str| self.leaving.contains(name);
        let Some(why) = schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            leaving,
        ) else {
            return (Plan::observe_only(binding), None);
        };
        let key = &binding.key;
        let plan = match Request::new(
            key.namespace.as_deref(),
            &key.name,
            &binding.spec,
            &binding.status,
        ) {
            Ok(request) => {
                let snapshot = self.snapshot.get_or_insert_with(|| self.fleet.snapshot());
                let outcome = self.engine.schedule(snapshot, &request);
                Plan::of(binding, &json, &outcome)
            }
            // Only a change of the binding can help, and that is an update.
            Err(error) => Plan::failure(
                binding,
                Reason::SchedulerError,
                error.to_string(),
                Verdict::Done,
            ),
        };
        (plan, Some(why))
    }

    fn finish(&mut self, finished: Result<Finished, tokio::task::JoinError>) {
        let now = Instant::now();
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "a write ended abnormally");
                return;
            }
        };
        self.record(&finished);
        let Finished {
            key,
            plan,
            report,
            schedule_type,
            began,
            ..
        } = finished;
        let verdict = match report {
            Report::Written(binding) => {
                let own = binding.generation();
                self.remember_if_present(*binding, own);
                // Events that came while we wrote were about our own write, unless the object is newer.
                if self
                    .bindings
                    .get(&key)
                    .is_none_or(|entry| entry.binding.generation() <= own)
                {
                    self.queue.calm(&key);
                }
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
                plan.verdict
            }
            Report::Conflict(current) => {
                tracing::debug!(binding = %key, "somebody else wrote first; deciding again");
                match current {
                    Some(current) => {
                        self.remember_if_present(*current, 0);
                        Verdict::Again
                    }
                    None => Verdict::Retry,
                }
            }
            Report::Gone => Verdict::Done,
            Report::Refused { status, binding } => self.refused(&key, &status, *binding),
            Report::Unreachable { error, binding } => {
                tracing::warn!(binding = %key, error, "cannot write a result; trying again");
                if let Some(binding) = binding {
                    let own = binding.generation();
                    self.remember_if_present(*binding, own);
                }
                self.metrics
                    .cycle(CycleResult::Error, schedule_type, began.elapsed());
                Verdict::Retry
            }
            Report::NotLeading => Verdict::Retry,
        };
        if verdict == Verdict::Retry || verdict == Verdict::Wait {
            self.metrics.incoming(Incoming::ScheduleAttemptFailure);
        }
        self.queue.done(&key, verdict, now);
    }

    /// An object that a write gave back. If the watch has seen its deletion meanwhile, it stays deleted.
    fn remember_if_present(&mut self, binding: Binding, own_generation: i64) {
        if self.bindings.contains_key(&binding.key) {
            self.remember(binding, own_generation);
        }
    }

    /// The API server refuses the result: the binding says so.
    fn refused(
        &mut self,
        key: &BindingKey,
        status: &kube::core::Status,
        binding: Binding,
    ) -> Verdict {
        let quota = status.code == 403 && status.reason == "QuotaExceeded";
        let reason = if quota {
            Reason::QuotaExceeded
        } else {
            Reason::SchedulerError
        };
        tracing::warn!(binding = %key, error = status.message, "the API server refuses a result");
        let plan = Plan::failure(&binding, reason, status.message.clone(), Verdict::Retry);
        if plan.is_empty() {
            return Verdict::Retry;
        }
        let writer = self.writer.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let began = Instant::now();
            let resource = template_reference(&binding);
            let report = match writer.write(Arc::new(binding), &plan).await {
                // Refusing the refusal too leads nowhere: the key backs off.
                Report::Refused { status, .. } => Report::Unreachable {
                    error: status.message.clone(),
                    binding: None,
                },
                report => report,
            };
            Finished {
                key,
                resource,
                plan,
                report,
                schedule_type: ScheduleType::Reconcile,
                began,
            }
        });
        Verdict::Retry
    }

    /// Records the events of a plan whose writes have landed.
    fn record(&self, finished: &Finished) {
        let Report::Written(binding) = &finished.report else {
            return;
        };
        let reference = binding_reference(&finished.key, &binding.metadata);
        for note in &finished.plan.notes {
            self.recorder.record(&reference, note.clone());
            self.recorder.record(&finished.resource, note.clone());
        }
    }

    fn say_deleting(&self, binding: &Binding) {
        let kind = match &binding.key.namespace {
            Some(_) => "resourceBinding",
            None => "clusterResourceBinding",
        };
        let message = format!("skip schedule deleting {kind}: {}", binding.key);
        let note = Note {
            note_type: NoteType::Warning,
            reason: REASON_FAILED,
            message,
        };
        self.recorder.record(
            &binding_reference(&binding.key, &binding.metadata),
            note.clone(),
        );
        self.recorder.record(&template_reference(binding), note);
    }
}

fn cycle_result(plan: &Plan) -> CycleResult {
    let failed = plan.verdict == Verdict::Retry
        || plan
            .status
            .as_ref()
            .and_then(|status| status.scheduled.as_ref())
            .is_some_and(|scheduled| {
                !matches!(scheduled.reason, Reason::Success | Reason::NoClusterFit)
            });
    if failed {
        CycleResult::Error
    } else {
        CycleResult::Scheduled
    }
}

fn binding_reference(key: &BindingKey, metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some("work.karmada.io/v1alpha2".into()),
        kind: Some(key.kind().into()),
        namespace: key.namespace.as_deref().map(Into::into),
        name: Some(key.name.to_string()),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

fn template_reference(binding: &Binding) -> ObjectReference {
    let resource = &binding.spec.resource;
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        namespace: resource.namespace.clone(),
        name: Some(resource.name.clone()),
        uid: resource.uid.clone(),
        ..ObjectReference::default()
    }
}
