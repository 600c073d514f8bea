//! Requests that create, update and delete the Works of a binding on the control plane.

mod orphans;

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::conflict_retry::Attempts;
use berth_apimachinery::timestamp;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_api::{Binding, Work};
use berth_events::EventRecorder;
use berth_interpreter::{InterpretError, Interpreter};
use berth_telemetry::Span;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::desired_work::{
    DesiredWork, RenderError, desired_work, divided_completions, missing_completions,
};
use super::inject_preserved_state::labels_to_inject;
use super::migration::known::KnownMigration;
use super::migration::observed::Migration;
use super::sync_input::SyncInput;
use super::targets::directly_purged;
use super::work_patch::{new_work, patch_for};
use super::{recorded_events, trace};
use crate::binding_api::binding_api;
use crate::execution_namespace::create_execution_namespace;
use crate::object_reference::object_reference;
use crate::overrides::OverrideError;
use crate::overrides::recorded_events as override_events;
use crate::recent_templates::RecentTemplates;
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::{KindError, RestMapper};

/// An error of a sync.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// A request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The resource of the template's kind cannot be found.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The template is malformed.
    #[error("cannot decode the template: {0}")]
    Template(#[from] serde_json::Error),
    /// An override policy cannot be applied.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The interpreter cannot set the replicas.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// A target cluster is being deleted and gets no new Work.
    #[error("cluster {0} is being removed")]
    ClusterTerminating(String),
    /// A target cluster does not exist.
    #[error("cluster {0} does not exist")]
    ClusterNotFound(String),
    /// A former Work of the same name still exists.
    #[error("work {0} is being deleted")]
    WorkTerminating(String),
    /// Other clients kept changing the Work.
    #[error("gave up after repeated conflicts on work {0}")]
    Conflicts(String),
    /// The sync failed for several clusters.
    #[error("{}", distinct_messages(.0))]
    Several(Vec<Self>),
}

/// Joins the messages of several errors without duplicates.
fn distinct_messages(errors: &[SyncError]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for reason in errors.iter().map(ToString::to_string) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.join("; ")
}

impl SyncError {
    /// Returns the message for the condition of the binding, if an override cannot be applied.
    pub(crate) fn override_failure(&self) -> Option<String> {
        match self {
            Self::Override(error) => Some(error.to_string()),
            Self::Several(errors) => errors.iter().find_map(Self::override_failure),
            _ => None,
        }
    }

    /// Reports whether the error is expected to disappear without an action by a user, so that it needs no warning.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::WorkTerminating(_) | Self::Conflicts(_) | Self::ClusterTerminating(_) => true,
            Self::Api(error) => has_code(error, 409),
            Self::Several(errors) => errors.iter().all(Self::is_transient),
            _ => false,
        }
    }
}

/// The results of a sync.
#[derive(Debug, Default)]
pub(crate) struct SyncOutcome {
    /// The Works that the sync has written.
    pub(crate) written: Vec<Work>,
    /// The migration that the sync has decided.
    pub(crate) migration: KnownMigration,
}

/// A writer of Works. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct WorkSyncer {
    kinds: RestMapper,
    events: EventRecorder,
    interpreter: ResourceInterpreter,
    templates: RecentTemplates,
    /// True to add preserved state as labels, as Karmada's feature gate `StatefulFailoverInjection` does.
    inject_state: bool,
    /// The time after which old copies of a migrating workload leave although the new ones are not ready. `None` if they
    /// leave at once, as in Karmada.
    migration_timeout: Option<Duration>,
}

impl WorkSyncer {
    /// Creates a syncer, which reads and writes the control plane with the client of `kinds`.
    pub(crate) fn new(
        kinds: RestMapper,
        events: EventRecorder,
        interpreter: ResourceInterpreter,
        templates: RecentTemplates,
        inject_state: bool,
        migration_timeout: Option<Duration>,
    ) -> Self {
        Self {
            kinds,
            events,
            interpreter,
            templates,
            inject_state,
            migration_timeout,
        }
    }

    /// Creates, updates and deletes the Works of a binding. Adds the results to `outcome`, even if a later request
    /// fails. The comments number the phases. Most phases end the sync after a write, because the watch event of this
    /// write starts the next sync.
    pub(crate) async fn sync(
        &self,
        input: SyncInput,
        outcome: &mut SyncOutcome,
    ) -> Result<(), SyncError> {
        let binding = &input.binding;
        // 1. The end. The finalizer of the binding stays until the Works are gone, because only the Works can delete the
        //    objects in the members.
        if binding.deleting() {
            let works = self.list_works(binding).await?;
            for work in &works {
                self.delete(work).await?;
            }
            if works.iter().any(|work| input.awaits_deletion(work)) {
                // The deletion of the Work starts the next sync.
                return Ok(());
            }
            return self.remove_finalizer(binding).await;
        }
        // 2. The permanent id and the finalizer. They come before the first Work: the Works are found by the id, and
        //    without the finalizer they would outlive the binding.
        if self.initialize(binding).await? {
            return Ok(());
        }
        // 3. The newest template, and what each cluster gets of it now. A migration is decided before any Work is
        //    written, because what leaves one cluster depends on what is ready in the others.
        let Some(template) = self.template(binding).await? else {
            return Ok(());
        };
        let reference = object_reference(&template);
        let template = serde_json::to_value(&*template)?;
        let migration = self.migration(&input, &template).await?;
        // 4. The Works in clusters that are no longer targets. They come before new Works, so that an error in a new
        //    target does not keep the objects in a former target.
        outcome.migration = KnownMigration::of(&migration);
        self.write_orphans(&input, &migration, &mut outcome.written)
            .await?;
        // 5. The purged clusters. No Work is written while one of them has a Work, because two copies of the
        //    application must not run at the same time. The deletion of that Work starts the next sync.
        let purged = directly_purged(&binding.spec);
        let mut clusters = input.works.keys();
        if clusters.any(|cluster| purged.contains(cluster.as_str())) {
            return Ok(());
        }
        // 6. The Works of the targets.
        let written = &mut outcome.written;
        self.write_works(&input, &reference, &template, &migration, written)
            .await
    }

    /// Decides what each cluster gets now.
    async fn migration(&self, input: &SyncInput, template: &Value) -> Result<Migration, SyncError> {
        let Some(timeout) = self.migration_timeout else {
            return Ok(Migration::default());
        };
        let now = timestamp::now();
        let observe =
            |rules: &Interpreter| Migration::observe(input, template, timeout, now, rules);
        Ok(self.interpreter.interpret(observe).await?)
    }

    /// Writes the Works of all target clusters.
    async fn write_works(
        &self,
        input: &SyncInput,
        reference: &ObjectReference,
        template: &Value,
        migration: &Migration,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        let binding = &input.binding;
        let start = SystemTime::now();
        let targets = migration.targets(&binding.spec);
        let completions = divided_completions(binding, template, &targets, &input.works);
        let mut is_overridden = false;
        let mut errors = Vec::new();
        for target in &targets {
            let completions = completions.get(&target.name).copied();
            let Some(cluster) = input.clusters.get(&target.name) else {
                errors.push(SyncError::ClusterNotFound(target.name.clone()));
                continue;
            };
            let render = |rules: &Interpreter| {
                let overrides = &input.overrides;
                desired_work(
                    binding,
                    template,
                    target,
                    completions,
                    overrides,
                    cluster,
                    rules,
                )
            };
            let rendered = self.interpreter.interpret(render).await;
            let (mut desired, applied) = match rendered {
                Ok(rendered) => rendered,
                Err(RenderError::Override(error)) => {
                    override_events::failed(&self.events, reference, &target.name, &error);
                    errors.push(error.into());
                    continue;
                }
                Err(RenderError::Interpret(error)) => {
                    errors.push(error.into());
                    continue;
                }
            };
            is_overridden |= applied.cluster.is_some() || applied.namespaced.is_some();
            if self.inject_state
                && let Some(labels) = labels_to_inject(&binding.spec, &targets, &target.name)
            {
                desired.add_labels(labels.clone());
            }
            let mut works = input.works.get(&target.name).into_iter().flatten();
            let name = Some(&desired.name);
            let stored = works.find(|work| work.metadata.name.as_ref() == name);
            // A new Work would recreate the execution namespace, which is deleted with the cluster.
            if stored.is_none() && cluster.metadata.deletion_timestamp.is_some() {
                errors.push(SyncError::ClusterTerminating(target.name.clone()));
                continue;
            }
            match self
                .write(&desired, stored.map(|work| (**work).clone()))
                .await
            {
                Ok(None) => {}
                Ok(Some(work)) => {
                    written.push(work);
                    override_events::applied(&self.events, reference, &target.name, &applied);
                }
                Err(error) => errors.push(error),
            }
        }
        let result = match errors.pop() {
            None => Ok(()),
            Some(only) if errors.is_empty() => Err(only),
            Some(last) => {
                errors.push(last);
                Err(SyncError::Several(errors))
            }
        };
        if !written.is_empty() {
            let missing = missing_completions(template, &completions);
            if missing > 0 && !is_overridden {
                recorded_events::completions_missing(&self.events, binding, reference, missing);
            }
            let parent = trace(binding).and_then(|text| text.parse().ok());
            let mut span = Span::start("sync_works", parent.as_ref(), start);
            span.set("binding", binding.title());
            span.set("works", i64::try_from(written.len()).unwrap_or(i64::MAX));
            if let Err(error) = &result {
                span.fail(error);
            }
        }
        match &result {
            Ok(()) if !written.is_empty() => {
                recorded_events::works_synced(&self.events, binding, reference);
            }
            Err(error) if !error.is_transient() => {
                recorded_events::sync_failed(&self.events, binding, reference, &error.to_string());
            }
            _ => {}
        }
        result
    }

    /// Creates or updates a Work. Returns the written Work, or `None` if the stored Work was up to date.
    async fn write(
        &self,
        desired: &DesiredWork,
        stored: Option<Work>,
    ) -> Result<Option<Work>, SyncError> {
        let api: Api<Work> = Api::namespaced(self.kinds.client(), &desired.namespace());
        let name = &desired.name;
        let parameters = PatchParams::default();
        let mut attempts = Attempts::new(stored);
        while attempts.begin() {
            let response = match attempts.known() {
                None => self.create(&api, desired).await,
                Some(work) if work.metadata.deletion_timestamp.is_some() => {
                    return Err(SyncError::WorkTerminating(name.clone()));
                }
                Some(work) => {
                    let Some(patch) = patch_for(work, desired) else {
                        return Ok(None);
                    };
                    api.patch(name, &parameters, &Patch::Merge(patch)).await
                }
            };
            if let Some(work) = attempts.end(response, api.get_opt(name)).await? {
                return Ok(Some(work));
            }
        }
        Err(SyncError::Conflicts(name.clone()))
    }

    async fn create(&self, api: &Api<Work>, desired: &DesiredWork) -> Result<Work, kube::Error> {
        let work = new_work(desired, &uuid::Uuid::new_v4().to_string());
        let work: Work = serde_json::from_value(work).map_err(kube::Error::SerdeError)?;
        let created = api.create(&PostParams::default(), &work).await;
        match created {
            Err(error) if has_code(&error, 404) => {
                self.ensure_execution_namespace(&desired.cluster).await?;
                api.create(&PostParams::default(), &work).await
            }
            other => other,
        }
    }

    /// Creates the execution namespace of a cluster if it does not exist.
    async fn ensure_execution_namespace(&self, cluster: &str) -> Result<(), kube::Error> {
        match create_execution_namespace(self.kinds.client(), cluster).await {
            Err(error) if has_code(&error, 409) => Ok(()),
            created => created,
        }
    }

    async fn delete(&self, work: &Work) -> Result<(), SyncError> {
        let meta = &work.metadata;
        if meta.deletion_timestamp.is_some() {
            return Ok(());
        }
        let name = meta.name.as_deref().unwrap_or_default();
        match self
            .works(work)
            .delete(name, &DeleteParams::default())
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn works(&self, work: &Work) -> Api<Work> {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.kinds.client(), namespace)
    }

    /// Lists the Works of a binding from the server, because the index may lack the newest Works.
    async fn list_works(&self, binding: &Binding) -> Result<Vec<Arc<Work>>, SyncError> {
        if binding.permanent_id().is_empty() {
            return Ok(Vec::new());
        }
        let api: Api<Work> = Api::all(self.kinds.client());
        let selector = format!(
            "{}={}",
            binding.key.kind().id_label(),
            binding.permanent_id()
        );
        let listed = api.list(&ListParams::default().labels(&selector)).await?;
        Ok(listed.items.into_iter().map(Arc::new).collect())
    }

    /// Removes the controller's finalizer from a deleted binding. The remaining Works belong to members that do not
    /// respond. These Works have their own finalizer, which the execution controller removes when their objects are
    /// gone.
    async fn remove_finalizer(&self, binding: &Binding) -> Result<(), SyncError> {
        let own = binding.key.kind().finalizer();
        if !binding.finalizers().iter().any(|name| name == own) {
            return Ok(());
        }
        let others = binding.finalizers().iter().filter(|name| *name != own);
        let patch = json!({ "metadata": {
            "finalizers": others.collect::<Vec<_>>(), "resourceVersion": binding.resource_version() } });
        self.patch(binding, &patch).await
    }

    /// Adds the permanent id and the finalizer to a binding that lacks them. Reports whether the binding was written.
    async fn initialize(&self, binding: &Binding) -> Result<bool, SyncError> {
        let own = binding.key.kind().finalizer();
        let has_finalizer = binding.finalizers().iter().any(|name| name == own);
        if has_finalizer && !binding.permanent_id().is_empty() {
            return Ok(false);
        }
        let mut metadata = json!({ "resourceVersion": binding.resource_version() });
        if !has_finalizer {
            let mut finalizers = binding.finalizers().to_vec();
            finalizers.push(own.to_owned());
            metadata["finalizers"] = json!(finalizers);
        }
        if binding.permanent_id().is_empty() {
            let id = uuid::Uuid::new_v4().to_string();
            metadata["labels"] = json!({ (binding.key.kind().id_label()): id });
        }
        self.patch(binding, &json!({ "metadata": metadata }))
            .await?;
        Ok(true)
    }

    async fn patch(&self, binding: &Binding, patch: &Value) -> Result<(), SyncError> {
        let api = binding_api(self.kinds.client(), &binding.key);
        let patched = api
            .patch(
                &binding.key.name,
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await;
        match patched {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the template. Returns `None` if it does not exist: the garbage collector then deletes the binding.
    async fn template(&self, binding: &Binding) -> Result<Option<Arc<DynamicObject>>, SyncError> {
        let resource = &binding.spec.resource;
        if let Some(template) = self.templates.get(resource) {
            return Ok(Some(template));
        }
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let api = self
            .kinds
            .api(&resource.api_version, &resource.kind, namespace)
            .await?;
        let Some(mut template) = api.get_opt(&resource.name).await? else {
            return Ok(None);
        };
        // The response may lack `apiVersion` and `kind`.
        template.types.get_or_insert_with(|| kube::core::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        Ok(Some(Arc::new(template)))
    }
}
