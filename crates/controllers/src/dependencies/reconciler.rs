//! The reconciler of the distributor: its state, and the jobs that it dispatches.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use berth_api::{BindingKey, ResourceBinding};
use kube::api::DynamicObject;
use kube::core::ApiResource;

use super::attachment::plan;
use super::index::Index;
use super::merged_settings::Conflict;
use super::record::{BindingRecord, ObjectKey, ObjectKind, Role};
use super::recorded_events;
use super::writer::{Resolved, WriteError, Writer};
use crate::interpreter_configuration::{ConfigurationKind, Customizations};
use crate::monitor::queue_meter::QueueMeter;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::log_key::LogKey;
use crate::reconciler::work_queue::{Priority, RetryableError as _, Timers, WorkQueue};
use crate::reconciler::{Inputs, Reconciler, Workers};
use crate::resource_type::ResourceType;

/// Maximum number of jobs at the same time.
pub(super) const WORKERS: usize = 32;

/// The source of a watch event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// ResourceBindings.
    Bindings,
    /// Customizations and webhooks of the interpreter.
    Interpreter(ConfigurationKind),
    /// Objects of a kind to which templates refer.
    Objects(ObjectKind),
}

/// A watch event with its source.
pub(super) type Event = (Source, WatchEvent);

/// A queued job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Job {
    /// Resolve the dependencies of an independent binding, or remove the finalizer of a [detaching](Role::Detaching)
    /// binding.
    Resolve(BindingKey),
    /// Write the attached binding of a dependency.
    Attach(ObjectKey),
}

impl LogKey for Job {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(key) => write!(f, "{} {key}", key.kind()),
            Self::Attach(key) => write!(f, "{} {}/{}", key.kind.kind, key.namespace, key.name),
        }
    }
}

/// The result of a job.
pub(super) struct Outcome {
    job: Job,
    result: JobResult,
}

enum JobResult {
    Resolved(Arc<BindingRecord>, Result<Resolved, WriteError>),
    Released(Arc<BindingRecord>, Result<DynamicObject, WriteError>),
    Attached {
        existing: Option<Arc<BindingRecord>>,
        /// The independent bindings whose clusters are copied to the attached binding.
        synced: Vec<Arc<BindingRecord>>,
        conflict: Conflict,
        result: Result<DynamicObject, WriteError>,
    },
}

/// The dependencies distributor.
pub(super) struct Distributor {
    pub(super) index: Index,
    pub(super) bindings_synced: bool,
    /// The last reported conflict of each attached binding.
    pub(super) reported: HashMap<BindingKey, Conflict>,
    queue: WorkQueue<Job, ()>,
    writer: Writer,
    pub(super) customizations: Customizations,
    watched: HashSet<Source>,
}

impl Reconciler for Distributor {
    type Event = Event;
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Event, _: &mut Inputs<Event>) {
        self.handle_watch_event(&source, event);
    }

    fn handle_outcome(&mut self, outcome: Outcome, inputs: &mut Inputs<Event>) {
        let Outcome { job, result } = outcome;
        let handled = match result {
            JobResult::Resolved(record, Ok(resolved)) => {
                self.handle_resolved(&record, resolved, inputs)
            }
            JobResult::Released(record, Ok(stored)) => {
                self.handle_stored(&record, &stored);
                Ok(())
            }
            JobResult::Resolved(_, Err(error)) | JobResult::Released(_, Err(error)) => Err(error),
            JobResult::Attached {
                existing,
                synced,
                conflict,
                result,
            } => self.handle_attached(existing.as_deref(), &synced, conflict, result),
        };
        match handled {
            Ok(()) => self.queue.finish(&job),
            Err(error) => self.queue.retry(&job, (), &error),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        // Before all bindings are listed, the index may lack an existing independent binding.
        if !self.bindings_synced || !self.customizations.has_synced() {
            return;
        }
        while workers.has_free() {
            let Some((job, ())) = self.queue.next() else {
                return;
            };
            match job {
                Job::Resolve(key) => self.resolve(key, workers),
                Job::Attach(key) => self.attach(key, workers),
            }
        }
    }
}

impl Distributor {
    pub(super) fn new(writer: Writer, customizations: Customizations, meter: QueueMeter) -> Self {
        Self {
            index: Index::default(),
            bindings_synced: false,
            reported: HashMap::new(),
            queue: WorkQueue::default().metered(meter),
            writer,
            customizations,
            watched: HashSet::new(),
        }
    }

    /// Starts the informer for bindings.
    pub(super) fn watch_bindings(&mut self, inputs: &mut Inputs<Event>) {
        let bindings = ApiResource::erase::<ResourceBinding>(&());
        self.watch(Source::Bindings, &bindings, inputs);
    }

    /// Starts the informers for customizations and webhooks.
    pub(super) fn watch_customizations(&mut self, inputs: &mut Inputs<Event>) {
        for kind in ConfigurationKind::ALL {
            self.watch(Source::Interpreter(kind), &kind.resource(), inputs);
        }
    }

    /// Starts an informer for a source, unless it is already running.
    fn watch(&mut self, source: Source, resource: &ApiResource, inputs: &mut Inputs<Event>) {
        if self.watched.insert(source.clone()) {
            inputs.watch(resource, move |event| (source.clone(), event));
        }
    }

    pub(super) fn enqueue(&mut self, job: Job) {
        self.queue.push(job, (), Priority::High);
    }

    fn resolve(&mut self, key: BindingKey, workers: &mut Workers<Outcome>) {
        let Some(record) = self.index.binding(&key).cloned() else {
            self.queue.finish(&Job::Resolve(key));
            return;
        };
        let writer = self.writer.clone();
        match record.role() {
            Role::Unrelated => self.queue.finish(&Job::Resolve(key)),
            Role::Independent => self.start(Job::Resolve(key), workers, async move {
                let result = writer.resolve(&record).await;
                JobResult::Resolved(record, result)
            }),
            Role::Detaching if self.index.attached_to(&key).next().is_none() => {
                self.start(Job::Resolve(key), workers, async move {
                    let result = writer.release(&record).await;
                    JobResult::Released(record, result)
                });
            }
            // The next change of an attached binding that refers to this binding queues this binding again.
            Role::Detaching => {
                self.enqueue_attached(&key);
                self.queue.finish(&Job::Resolve(key));
            }
        }
    }

    fn attach(&mut self, key: ObjectKey, workers: &mut Workers<Outcome>) {
        let job = Job::Attach(key.clone());
        let Some(input) = self.index.attachment_input(&key) else {
            self.queue.finish(&job);
            return;
        };
        let plan = plan(&input);
        let Some(write) = plan.write else {
            if let Some(existing) = &input.existing {
                self.report_conflict(existing, plan.conflict);
            }
            self.queue.finish(&job);
            return;
        };
        let synced = plan.synced.iter();
        let synced: Vec<Arc<BindingRecord>> = synced
            .filter_map(|key| self.index.binding(key).cloned())
            .collect();
        let (writer, conflict) = (self.writer.clone(), plan.conflict);
        self.start(job, workers, async move {
            let existing = input.existing;
            let key = key.binding();
            let result = writer.attach(&key, existing.as_deref(), write).await;
            JobResult::Attached {
                existing,
                synced,
                conflict,
                result,
            }
        });
    }

    fn start(
        &mut self,
        job: Job,
        workers: &mut Workers<Outcome>,
        work: impl Future<Output = JobResult> + Send + 'static,
    ) {
        self.queue.start(job.clone());
        workers.start(async move {
            let result = work.await;
            Outcome { job, result }
        });
    }

    fn handle_resolved(
        &mut self,
        record: &BindingRecord,
        resolved: Resolved,
        inputs: &mut Inputs<Event>,
    ) -> Result<(), WriteError> {
        let key = &record.key;
        if let Some(stored) = resolved.stored {
            self.handle_stored(record, &stored);
        }
        for kind in resolved.kinds {
            self.watch_objects(&kind, inputs);
        }
        let current = self.index.binding(key);
        let is_current =
            current.is_some_and(|now| now.uid == record.uid && now.role() == Role::Independent);
        if let Some(dependencies) = resolved.dependencies.filter(|_| is_current) {
            // The attached bindings of the former and of the new dependencies must be written.
            self.enqueue_attached(key);
            self.index.set_dependencies(key, dependencies);
            self.enqueue_attached(key);
        }
        let Some(unserved) = resolved.unserved else {
            return Ok(());
        };
        let event = recorded_events::sync_failed(record, &unserved.to_string());
        self.writer.events.record(event);
        Err(unserved.into())
    }

    fn watch_objects(&mut self, kind: &ResourceType, inputs: &mut Inputs<Event>) {
        let source = Source::Objects(ObjectKind {
            api_version: kind.api.api_version.clone(),
            kind: kind.api.kind.clone(),
        });
        self.watch(source, &kind.api, inputs);
    }

    fn handle_attached(
        &mut self,
        existing: Option<&BindingRecord>,
        synced: &[Arc<BindingRecord>],
        conflict: Conflict,
        result: Result<DynamicObject, WriteError>,
    ) -> Result<(), WriteError> {
        let recorder = &self.writer.events;
        match result {
            Ok(stored) => {
                for independent in synced {
                    recorder.record(recorded_events::synced(independent));
                }
                if let Ok(record) = BindingRecord::read(&stored) {
                    self.report_conflict(&record, conflict);
                }
                // A newly created binding enters the index when its watch event arrives.
                if let Some(existing) = existing {
                    self.handle_stored(existing, &stored);
                }
                Ok(())
            }
            Err(error) => {
                if !error.is_stale() {
                    for independent in synced {
                        recorder.record(recorded_events::sync_failed(
                            independent,
                            &error.to_string(),
                        ));
                    }
                }
                Err(error)
            }
        }
    }

    /// Updates the index with the version of a binding that a write returned. Does nothing if the watch has delivered
    /// another version since `base`, or if the binding is being deleted.
    fn handle_stored(&mut self, base: &BindingRecord, stored: &DynamicObject) {
        let known = self.index.binding(&base.key);
        if known.is_some_and(|known| known.version == base.version)
            && stored.metadata.deletion_timestamp.is_none()
        {
            self.handle_binding_applied(stored);
        }
    }

    /// Records an event about conflicting settings of an attached binding, unless the same conflict is already
    /// reported.
    fn report_conflict(&mut self, attached: &BindingRecord, conflict: Conflict) {
        let reported = self.reported.insert(attached.key.clone(), conflict);
        if reported.unwrap_or_default() != conflict
            && let Some(message) = conflict.message()
        {
            let recorder = &self.writer.events;
            recorder.record(recorded_events::policy_conflict(attached, message));
        }
    }
}
