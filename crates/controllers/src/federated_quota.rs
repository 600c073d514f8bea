//! The three controllers of FederatedResourceQuotas.
//!
//! - [`sync`]: writes the Works with the ResourceQuotas of `spec.staticAssignments`.
//! - [`status`]: aggregates the usage of these ResourceQuotas from the status of the Works.
//! - [`enforcement`]: keeps `status.overall` and `status.overallUsed` in accordance with the bindings. Admission charges
//!   bindings to the quotas; [`recalculation`] explains why a recalculation never undoes such a charge.
//!
//! The controllers share the observed objects. Each one writes its own part of a quota, with the resourceVersion of the
//! quota that the part is based on.

mod enforcement;
mod inputs;
mod recalculation;
mod recorded_events;
mod status;
mod status_writer;
mod sync;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::federated_quota::{Amounts, used};
use berth_api::{FederatedResourceQuota, Work};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::enforcement::Enforcement;
use self::inputs::{Input, Source};
use self::recorded_events::QuotaEvents;
use self::status_writer::write_status;
use self::task::{Outcome, Part, Task};
use crate::monitor::Monitor;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};

/// The name of the controllers' queue in metrics.
const QUEUE: &str = "federated-resource-quota";
/// Maximum number of quotas that are processed at the same time.
const WORKERS: usize = 8;

/// The controllers that run.
#[derive(Clone, Copy, Debug)]
pub struct QuotaOptions {
    /// The sync controller.
    pub sync: Option<SyncController>,
    /// The status controller.
    pub status: Option<StatusController>,
    /// The enforcement controller, with the interval between recalculations of all quotas.
    pub enforcement: Option<Duration>,
    /// True to record an event for each successful step, as the feature gate `RoutineEvents` does.
    pub routine_events: bool,
}

/// The sync controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncController;

/// The source of `status.overallUsed` for the status controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusController {
    /// The status controller writes the sum of the usage in members.
    SumOfMembers,
    /// Admission and the enforcement controller write the usage of bindings.
    Bindings,
}

/// Runs the controllers until the token is cancelled.
///
/// # Errors
/// When one of their tasks panics.
pub async fn run(
    client: Client,
    options: QuotaOptions,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    if options.sync.is_none() && options.status.is_none() && options.enforcement.is_none() {
        shutdown.cancelled().await;
        return Ok(());
    }
    let meter = monitor.queue(QUEUE);
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(QUEUE);
    let events = QuotaEvents::new(&events.with_routine_events(options.routine_events));
    for source in [Source::Quotas, Source::Clusters, Source::Works] {
        inputs::watch(inputs, source);
    }
    if let Some(period) = options.enforcement {
        inputs::repeat(inputs, period);
    }
    let controllers = QuotaControllers {
        client,
        events,
        options,
        quotas: BTreeMap::new(),
        clusters: BTreeSet::new(),
        works: BTreeMap::new(),
        listed: BTreeSet::new(),
        enforcement: Enforcement::default(),
        bindings: None,
        monitor: monitor.clone(),
        queue: WorkQueue::default().metered(meter),
    };
    runtime
        .run("federated resource quota controllers", controllers, WORKERS)
        .await
}

struct QuotaControllers {
    client: Client,
    events: QuotaEvents,
    options: QuotaOptions,
    quotas: BTreeMap<ObjectName, Arc<FederatedResourceQuota>>,
    /// The names of the clusters that exist and are not terminating.
    clusters: BTreeSet<String>,
    /// The Works of quotas.
    works: BTreeMap<ObjectName, Arc<Work>>,
    /// Sources whose first list is complete.
    listed: BTreeSet<Source>,
    enforcement: Enforcement,
    /// The token that stops the watch of bindings, while there are quotas.
    bindings: Option<CancellationToken>,
    monitor: Monitor,
    queue: WorkQueue<Task, ()>,
}

impl Reconciler for QuotaControllers {
    type Event = Input;
    type Outcome = (Task, Outcome);

    fn handle_event(&mut self, event: Input, inputs: &mut Inputs<Input>) {
        match event {
            Input::Watch(Source::Bindings, event) => self.handle_binding_event(event),
            Input::Watch(source, event) => self.observe(&source, event),
            Input::Period => self.enqueue_all(Part::Enforcement),
        }
        self.watch_bindings(inputs);
    }

    fn handle_outcome(&mut self, (task, outcome): Self::Outcome, _: &mut Inputs<Input>) {
        match outcome {
            Outcome::Done => {
                self.queue.finish(&task);
                self.events
                    .succeeded(self.quotas.get(&task.quota), task.part);
            }
            Outcome::Recalculated(recalculated) => {
                self.queue.finish(&task);
                let due = self.enforcement.finish(&task.quota, recalculated);
                if let Some(due) = due {
                    self.queue.push_at(task.clone(), due);
                }
                self.events
                    .succeeded(self.quotas.get(&task.quota), task.part);
            }
            Outcome::Again => {
                self.queue.fail(&task, ());
            }
            Outcome::Failed(error) => {
                let quota = self.quotas.get(&task.quota);
                self.events.failed(quota, task.part, error.to_string());
                self.queue.retry(&task, (), &error);
            }
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>) {
        let sources = [Source::Quotas, Source::Clusters, Source::Works];
        if !sources.iter().all(|source| self.listed.contains(source)) {
            return;
        }
        while workers.has_free() {
            let Some((task, ())) = self.queue.next() else {
                return;
            };
            self.start(task, workers);
        }
    }
}

impl Observe for QuotaControllers {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        let name = object_name(&object);
        let parsed = match source {
            Source::Quotas => object
                .try_parse()
                .map(|quota| self.put_quota(name.clone(), quota)),
            Source::Works => object
                .try_parse()
                .map(|work| self.put_work(name.clone(), work)),
            Source::Clusters => {
                self.put_cluster(&object);
                Ok(())
            }
            Source::Bindings => Ok(()),
        };
        if let Err(error) = parsed {
            let (namespace, name) = name;
            let kind = source.resource().kind;
            tracing::warn!(kind, namespace, name, %error, "cannot read an object: it is ignored");
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        match source {
            Source::Quotas => {
                if let Some(quota) = self.quotas.remove(&key) {
                    let resources = quota.spec.overall.keys();
                    resources.for_each(|resource| self.monitor.forget_quota(&key, resource));
                }
                self.enforcement.forget(&key);
                self.push(Part::Sync, &key);
            }
            Source::Works => {
                if let Some(work) = self.works.remove(&key) {
                    let quota = sync::quota_of(&work);
                    self.push(Part::Sync, &quota);
                    self.push(Part::Status, &quota);
                }
            }
            Source::Clusters => drop(self.clusters.remove(name)),
            Source::Bindings => {}
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Quotas => self.quotas.keys().cloned().collect(),
            Source::Works => self.works.keys().cloned().collect(),
            Source::Clusters => cluster_scoped(&self.clusters),
            Source::Bindings => Vec::new(),
        }
    }

    fn listed(&mut self, source: &Source) {
        if *source == Source::Quotas {
            self.enforcement.handle_gap();
        }
        if self.listed.insert(*source) {
            self.enqueue_all(Part::Sync);
            self.enqueue_orphans();
        }
    }

    /// A control plane without quotas needs no controllers of quotas. The list-watch logs the missing kind once.
    fn unserved(&mut self, _: &Source) {}
}

impl QuotaControllers {
    fn put_quota(&mut self, name: ObjectName, quota: FederatedResourceQuota) {
        if let Some(due) = self.enforcement.observe(&name, &quota)
            && self.is_selected(Part::Enforcement)
        {
            let task = Task {
                part: Part::Enforcement,
                quota: name.clone(),
            };
            self.queue.push_at(task, due);
        }
        let new = Arc::new(quota);
        let old = self.quotas.insert(name.clone(), Arc::clone(&new));
        self.measure(&name, old.as_deref(), &new);
        let assignments = |quota: &FederatedResourceQuota| quota.spec.static_assignments.clone();
        let old = old.as_deref();
        if old.map(assignments) != Some(assignments(&new)) {
            self.push(Part::Sync, &name);
        }
        if old.map(|old| &old.spec.overall) != Some(&new.spec.overall) {
            self.push(Part::Enforcement, &name);
        }
        self.push(Part::Status, &name);
    }

    /// Records the used shares of all limits of a quota.
    fn measure(
        &self,
        name: &ObjectName,
        old: Option<&FederatedResourceQuota>,
        new: &FederatedResourceQuota,
    ) {
        let former = old.into_iter().flat_map(|old| old.spec.overall.keys());
        for resource in former.filter(|resource| !new.spec.overall.contains_key(*resource)) {
            self.monitor.forget_quota(name, resource);
        }
        let used = used(new);
        for (resource, limit) in Amounts::of(&new.spec.overall).iter() {
            let share = used.get(resource).ratio(limit);
            self.monitor.quota_used(name, resource, share);
        }
    }

    fn put_work(&mut self, name: ObjectName, work: Work) {
        let quota = sync::quota_of(&work);
        let is_terminating = work.metadata.deletion_timestamp.is_some();
        self.works.insert(name, Arc::new(work));
        self.push(Part::Status, &quota);
        if !is_terminating && !self.quotas.contains_key(&quota) {
            self.push(Part::Sync, &quota);
        }
    }

    fn put_cluster(&mut self, cluster: &DynamicObject) {
        let name = cluster.name_any();
        if cluster.metadata.deletion_timestamp.is_some() {
            self.clusters.remove(&name);
            return;
        }
        if !self.clusters.insert(name.clone()) {
            return;
        }
        let quotas = self.quotas.iter();
        let assigned = quotas.filter(|(_, quota)| quota.spec.assigned_to(&name).is_some());
        let assigned: Vec<ObjectName> = assigned.map(|(quota, _)| quota.clone()).collect();
        for quota in assigned {
            self.push(Part::Sync, &quota);
        }
    }

    /// Frees the usage of a deleted binding. The deletions during an interruption of the watch are not known: the quotas
    /// are recalculated.
    fn handle_binding_event(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Deleted(binding) => {
                let namespace = binding.namespace().unwrap_or_default();
                let quotas = self.quotas.keys().filter(|(of, _)| *of == namespace);
                let quotas: Vec<ObjectName> = quotas.cloned().collect();
                let freed = enforcement::Freed::of(&binding);
                for quota in quotas {
                    if let Some(freed) = &freed {
                        self.enforcement.free(&quota, freed);
                    }
                    self.push(Part::Enforcement, &quota);
                }
            }
            WatchEvent::Listed(_) => self.enqueue_all(Part::Enforcement),
            WatchEvent::Applied(_) | WatchEvent::Unserved => {}
        }
    }

    /// Watches bindings while there are quotas that are enforced.
    fn watch_bindings(&mut self, inputs: &mut Inputs<Input>) {
        let is_needed = self.options.enforcement.is_some() && !self.quotas.is_empty();
        match &self.bindings {
            None if is_needed => self.bindings = Some(inputs::watch(inputs, Source::Bindings)),
            Some(stop) if !is_needed => {
                stop.cancel();
                self.bindings = None;
            }
            _ => {}
        }
    }

    fn is_selected(&self, part: Part) -> bool {
        match part {
            Part::Sync => self.options.sync.is_some(),
            Part::Status => self.options.status.is_some(),
            Part::Enforcement => self.options.enforcement.is_some(),
        }
    }

    fn push(&mut self, part: Part, quota: &ObjectName) {
        if self.is_selected(part) {
            let task = Task {
                part,
                quota: quota.clone(),
            };
            self.queue.push(task, (), Priority::High);
        }
    }

    fn enqueue_all(&mut self, part: Part) {
        let quotas: Vec<ObjectName> = self.quotas.keys().cloned().collect();
        for quota in quotas {
            self.push(part, &quota);
        }
    }

    /// Queues the removal of the Works of quotas that were deleted while no controller ran.
    fn enqueue_orphans(&mut self) {
        let quotas = self.works.values().map(|work| sync::quota_of(work));
        let deleted = quotas.filter(|quota| !self.quotas.contains_key(quota));
        let deleted: BTreeSet<ObjectName> = deleted.collect();
        for quota in deleted {
            self.push(Part::Sync, &quota);
        }
    }

    /// Decides about a task, and starts its writes.
    fn start(&mut self, task: Task, workers: &mut Workers<(Task, Outcome)>) {
        let quota = self.quotas.get(&task.quota).cloned();
        let works = self.works.values();
        let works: Vec<Arc<Work>> = works
            .filter(|work| sync::quota_of(work) == task.quota)
            .cloned()
            .collect();
        let client = self.client.clone();
        match (task.part, quota) {
            (Part::Sync, quota) => {
                let clusters = &self.clusters;
                let changes = sync::changes(&task.quota, quota.as_deref(), clusters, &works);
                self.queue.start(task.clone());
                workers.start(async move { (task, sync::apply(&client, changes).await) });
            }
            (Part::Status | Part::Enforcement, None) => self.queue.finish(&task),
            (Part::Status, Some(quota)) => {
                let source = self.options.status.unwrap_or(StatusController::Bindings);
                match status::patch(&quota, &works, source) {
                    None => {
                        self.queue.finish(&task);
                        self.events
                            .succeeded(self.quotas.get(&task.quota), task.part);
                    }
                    Some(patch) => {
                        self.queue.start(task.clone());
                        workers.start(async move {
                            let written = write_status(&client, &task.quota, patch).await;
                            let outcome = written.map_or_else(Outcome::from, |()| Outcome::Done);
                            (task, outcome)
                        });
                    }
                }
            }
            (Part::Enforcement, Some(_)) => {
                let known = self.enforcement.known(&task.quota, Instant::now());
                self.queue.start(task.clone());
                workers.start(async move {
                    let result = enforcement::recalculate(&client, &task.quota, known).await;
                    (task, result.into())
                });
            }
        }
    }
}

fn object_name(object: &DynamicObject) -> ObjectName {
    (object.namespace().unwrap_or_default(), object.name_any())
}
