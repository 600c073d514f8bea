//! The reconciler of the detector. It dispatches the writes that [`State`] decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use berth_api::BindingKind;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::claim::PolicyKind;
use super::decision::{Cause, Plan};
use super::options::DetectorOptions;
use super::policy::{PolicyRecord, PolicyState};
use super::policy_findings::PolicyFindings;
use super::state::{QueueItem, QueueKey, State};
use super::unserved_apis::UnservedApis;
use super::writer::{VersionChanges, WriteError, Writer};
use crate::interpreter_configuration::{ConfigurationKind, Customizations};
use crate::monitor::queue_meter::QueueMeter;
use crate::recent_templates::RecentTemplates;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::work_queue::Timers;
use crate::reconciler::{Inputs, Reconciler, Workers};
use crate::resource_type::ResourceType;

/// The source of a watch event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Resource templates of a type.
    Templates(Arc<ResourceType>),
    /// Policies of a kind.
    Policies(PolicyKind),
    /// Bindings of a kind.
    Bindings(BindingKind),
    /// Override policies of a kind.
    Overrides(PolicyKind),
    /// Clusters.
    Clusters,
    /// Customizations and webhooks of the interpreter.
    Interpreter(ConfigurationKind),
}

/// An event of the detector.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The resource types that the server serves now.
    Discovered(Vec<ResourceType>),
    /// A watch event from an informer.
    Watch(Source, WatchEvent),
}

/// The result of a write.
#[derive(Debug)]
pub(super) struct Outcome {
    key: QueueKey,
    cause: Cause,
    /// The written binding, if any.
    result: Result<Option<Box<DynamicObject>>, WriteError>,
}

/// The detector.
#[derive(Debug)]
pub(super) struct Detector {
    pub(super) state: State,
    pub(super) unserved: UnservedApis,
    pub(super) findings: PolicyFindings,
    /// The resource types of templates, each with the token that stops its informer.
    pub(super) types: HashMap<Arc<ResourceType>, CancellationToken>,
    /// Sources whose list is complete.
    pub(super) listed: HashSet<Source>,
    /// True if the served resource types are known.
    pub(super) is_discovered: bool,
    pub(super) writer: Writer,
    pub(super) customizations: Customizations,
    pub(super) templates: RecentTemplates,
    /// Sources with a running informer. The informers for templates are in `types`.
    watched: HashSet<Source>,
}

impl Reconciler for Detector {
    type Event = Event;
    type Outcome = Outcome;

    fn handle_event(&mut self, event: Event, inputs: &mut Inputs<Event>) {
        match event {
            Event::Discovered(types) => self.handle_discovery(types, inputs),
            Event::Watch(source, event) => self.handle_watch_event(source, event),
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Event>) {
        let Outcome { key, cause, result } = outcome;
        let (written, error) = match result {
            Ok(written) => (written.map(|binding| *binding), None),
            Err(error) => (None, Some(error)),
        };
        if let QueueKey::Template(key) = &key {
            self.state.template_written(key, written);
        }
        let Some(error) = error else {
            self.state.finish(&key);
            return;
        };
        if let (QueueKey::Template(key), WriteError::NoPriorityClass(_)) = (&key, &error) {
            self.state.await_priority_class(key.clone());
        }
        self.state.queue.retry(&key, cause, &error);
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.state.queue)
    }

    fn next_due(&mut self) -> Option<Instant> {
        let retry = self.state.queue.next_due();
        let findings = self.findings.due().filter(|_| self.can_find());
        retry
            .into_iter()
            .chain(self.unserved.due())
            .chain(findings)
            .min()
    }

    fn handle_due(&mut self) {
        self.state.queue.requeue_due();
        if self.unserved.due().is_some_and(|due| due <= Instant::now()) {
            self.report_unserved_apis();
        }
        if self.can_find() && self.findings.due().is_some_and(|due| due <= Instant::now()) {
            self.report_findings();
        }
    }

    /// Starts writes while workers are free. The comments number the phases of the detection.
    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        // 1. Complete lists: see `has_synced`.
        if !self.has_synced() {
            return;
        }
        while workers.has_free() {
            // 2. The next key with its decision. The decision is made now, and not when the key was queued, so that
            //    several changes need one decision, about the newest state. Keys of users' changes come first.
            let since = Instant::now();
            let Some(item) = self.state.next_item() else {
                return;
            };
            let key = item.key();
            let (template, cause, plan) = match item {
                // 3. A policy that is not ready. It comes before its templates, because it selects none until it is
                //    complete. A ready policy is not returned: `next_item` has queued the templates that it affects.
                QueueItem::Policy(record) => {
                    self.write_policy(record, workers);
                    continue;
                }
                QueueItem::Template {
                    template,
                    cause,
                    plan,
                } => (template, cause, plan),
            };
            self.writer.monitor.policy_matched(since.elapsed());
            // 4. The observed binding. It comes with the decision: its version is the precondition of the write, so
            //    that a write based on an older state fails, and is decided again.
            let binding = self.state.index.binding(&template.key.binding()).cloned();
            let writer = self.writer.clone();
            match plan {
                // The change for which a template waits queues the template again.
                Plan::None | Plan::AwaitPolicy | Plan::AwaitOverrides => self.state.finish(&key),
                // 5. A release writes the binding and then the template. In the opposite order, a failure after the
                //    first write would leave a claimed binding that is never examined again.
                Plan::Release(claim) => {
                    self.start(key, cause, workers, async move {
                        let released = writer.release(&template, &claim, binding).await;
                        released.map(|()| None)
                    });
                }
                // 6. An application claims the template and then writes the binding, for the same reason: the claim of
                //    the template leads to the binding when the policy changes or is deleted.
                Plan::Apply(application) => {
                    let version_changes = if cause == Cause::default() {
                        VersionChanges::Ignored
                    } else {
                        VersionChanges::Written
                    };
                    self.start(key, cause, workers, async move {
                        writer
                            .apply(&template, &application, binding, version_changes)
                            .await
                    });
                }
            }
        }
    }
}

impl Detector {
    pub(super) fn new(
        options: DetectorOptions,
        writer: Writer,
        customizations: Customizations,
        templates: RecentTemplates,
        meter: QueueMeter,
    ) -> Self {
        let mut state = State::new(options);
        state.measure(meter);
        Self {
            state,
            unserved: UnservedApis::default(),
            findings: PolicyFindings::default(),
            types: HashMap::new(),
            listed: HashSet::new(),
            is_discovered: false,
            writer,
            customizations,
            templates,
            watched: HashSet::new(),
        }
    }

    /// Starts an informer for a source, unless it is already running.
    pub(super) fn watch(
        &mut self,
        source: Source,
        resource: &ApiResource,
        inputs: &mut Inputs<Event>,
    ) {
        if self.watched.insert(source.clone()) {
            inputs.watch(resource, move |event| Event::Watch(source.clone(), event));
        }
    }

    /// Starts an informer for templates.
    pub(super) fn watch_templates(
        &mut self,
        resource: Arc<ResourceType>,
        inputs: &mut Inputs<Event>,
    ) {
        let source = Source::Templates(Arc::clone(&resource));
        let stop = inputs.watch(&resource.api, move |event| {
            Event::Watch(source.clone(), event)
        });
        self.types.insert(Arc::clone(&resource), stop);
        self.state.serve(resource);
    }

    /// Reports whether all policies, bindings and customizations are listed. Without all policies, the detector might
    /// release the claims of existing policies. Without all bindings, it would create existing bindings again.
    fn has_synced(&self) -> bool {
        let needed = [
            Source::Policies(PolicyKind::Namespaced),
            Source::Policies(PolicyKind::Cluster),
            Source::Bindings(BindingKind::Namespaced),
            Source::Bindings(BindingKind::Cluster),
        ];
        self.customizations.has_synced() && needed.iter().all(|source| self.listed.contains(source))
    }

    /// Reports whether policies can be checked for findings: all policies, bindings and clusters are listed.
    fn can_find(&self) -> bool {
        self.has_synced() && self.listed.contains(&Source::Clusters)
    }

    fn write_policy(&mut self, record: Arc<PolicyRecord>, workers: &mut Workers<Outcome>) {
        let key = QueueKey::Policy(record.key.clone());
        let writer = self.writer.clone();
        match &record.state {
            PolicyState::Incomplete(patch) => {
                let patch = patch.clone();
                self.start(key, Cause::default(), workers, async move {
                    writer.complete_policy(&record, &patch).await.map(|()| None)
                });
            }
            PolicyState::Terminating
                if record.has_finalizer() && self.has_released_all(&record) =>
            {
                self.start(key, Cause::default(), workers, async move {
                    writer.remove_finalizer(&record).await.map(|()| None)
                });
            }
            PolicyState::Terminating | PolicyState::Invalid(_) | PolicyState::Ready(_) => {
                self.state.finish(&key);
            }
        }
    }

    fn start(
        &mut self,
        key: QueueKey,
        cause: Cause,
        workers: &mut Workers<Outcome>,
        write: impl Future<Output = Result<Option<Box<DynamicObject>>, WriteError>> + Send + 'static,
    ) {
        self.state.queue.start(key.clone());
        workers.start(async move {
            let result = write.await;
            Outcome { key, cause, result }
        });
    }
}
