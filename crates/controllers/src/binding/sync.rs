//! Brings the Works of a binding in line with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::well_known::{BINDING_FINALIZER, CLUSTER_RESOURCE_BINDING_FINALIZER, SYSTEM};
use berth_api::{Cluster, Work, names};
use berth_events::EventRecorder;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::desired_work::{DesiredWork, desired_work, divided_completions};
use super::happenings;
use super::preserved_state::brought_along;
use super::record::Binding;
use super::targets::{directly_purged, expected_clusters, targets};
use super::work_change::{change, new_work};
use crate::binding_key::BindingKind;
use crate::kinds::{KindError, Kinds};
use crate::overrides::{OverrideError, OverrideSet};
use crate::said::said;

/// How often a write is tried when others write to the same object.
const CONFLICT_TRIES: usize = 5;

/// All that is known when the Works of a binding are looked at.
#[derive(Clone, Debug)]
pub(crate) struct SyncInput {
    pub(crate) binding: Arc<Binding>,
    /// Its Works, by cluster.
    pub(crate) works: BTreeMap<String, Vec<Arc<Work>>>,
    /// The clusters that it names, as far as they exist.
    pub(crate) clusters: BTreeMap<String, Arc<Cluster>>,
    pub(crate) overrides: OverrideSet,
}

/// Why the Works of a binding are not as they should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// The server refuses a request.
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    /// The kind of the template is not served.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The template is no JSON object of its kind.
    #[error("the template cannot be read: {0}")]
    Template(#[from] serde_json::Error),
    /// An override does not fit.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// A target is being removed, and gets nothing new.
    #[error("cluster {0} is being removed")]
    ClusterLeaves(String),
    /// A target is no cluster of this control plane.
    #[error("cluster {0} does not exist")]
    NoCluster(String),
    /// The Work of before is not gone yet.
    #[error("work {0} is being deleted")]
    Leaving(String),
    /// Others keep writing.
    #[error("work {0} changes all the time")]
    Busy(String),
    /// Several clusters failed.
    #[error("{}", each_once(.0))]
    Several(Vec<Self>),
}

/// What went wrong in several clusters, each reason once.
fn each_once(errors: &[SyncError]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for reason in errors.iter().map(ToString::to_string) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.join("; ")
}

impl SyncError {
    /// Whether it goes away when something that is on its way arrives: nobody has to be told.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Leaving(_) | Self::Busy(_) | Self::ClusterLeaves(_) => true,
            Self::Api(kube::Error::Api(status)) => status.code == 409,
            Self::Several(errors) => errors.iter().all(Self::is_passing),
            _ => false,
        }
    }
}

/// Writes Works. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Syncer {
    kinds: Kinds,
    events: EventRecorder,
    /// Whether new copies get the state of old ones as labels; Karmada's gate `StatefulFailoverInjection`.
    injects_state: bool,
}

impl Syncer {
    /// A writer of Works on the control plane whose kinds these are.
    pub(crate) fn new(kinds: Kinds, events: EventRecorder, injects_state: bool) -> Self {
        Self {
            kinds,
            events,
            injects_state,
        }
    }

    /// Brings the Works of a binding in line with it. What was written is told in any case, as the server has answered.
    pub(crate) async fn sync(
        &self,
        input: SyncInput,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        let binding = &input.binding;
        if binding.deleting {
            let all = self.all_works(binding).await?;
            self.delete(all.iter()).await?;
            return self.release(binding).await;
        }
        // The change of the binding leads here again.
        if self.adopt(binding).await? {
            return Ok(());
        }
        let expected = expected_clusters(&binding.spec);
        let orphans = input.works.iter();
        let orphans = orphans.filter(|(cluster, _)| !expected.contains(*cluster));
        if let Err(error) = self.delete(orphans.flat_map(|(_, works)| works)).await {
            happenings::not_cleaned(&self.events, binding, &error.to_string());
            return Err(error);
        }
        // Out of the old cluster before into the new one. That a Work is gone leads here again.
        let purged = directly_purged(&binding.spec);
        if input
            .works
            .keys()
            .any(|cluster| purged.contains(cluster.as_str()))
        {
            return Ok(());
        }
        let Some(template) = self.template(binding).await? else {
            return Ok(());
        };
        self.place(&input, &template, written).await
    }

    async fn place(
        &self,
        input: &SyncInput,
        template: &DynamicObject,
        written: &mut Vec<Work>,
    ) -> Result<(), SyncError> {
        let binding = &input.binding;
        let about = reference(template);
        let template = serde_json::to_value(template)?;
        let targets = targets(&binding.spec);
        let completions = divided_completions(binding, &template, &targets);
        let mut errors = Vec::new();
        for target in &targets {
            let completions = completions.get(&target.name).copied();
            let Some(cluster) = input.clusters.get(&target.name) else {
                errors.push(SyncError::NoCluster(target.name.clone()));
                continue;
            };
            let rendered = desired_work(
                binding,
                &template,
                target,
                completions,
                &input.overrides,
                cluster,
            );
            let (mut desired, applied) = match rendered {
                Ok(rendered) => rendered,
                Err(error) => {
                    happenings::not_overridden(&self.events, &about, &target.name, &error);
                    errors.push(error.into());
                    continue;
                }
            };
            if self.injects_state
                && let Some(labels) = brought_along(&binding.spec, &targets, &target.name)
            {
                desired.add_labels(labels.clone());
            }
            let mut works = input.works.get(&target.name).into_iter().flatten();
            let name = Some(&desired.name);
            let seen = works.find(|work| work.metadata.name.as_ref() == name);
            // Its execution namespace goes, and would be made again for a new Work, which then would have to go, too.
            if seen.is_none() && cluster.metadata.deletion_timestamp.is_some() {
                errors.push(SyncError::ClusterLeaves(target.name.clone()));
                continue;
            }
            match self
                .write(&desired, seen.map(|work| (**work).clone()))
                .await
            {
                Ok(None) => {}
                Ok(Some(work)) => {
                    written.push(work);
                    happenings::overridden(&self.events, &about, &target.name, &applied);
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
        match &result {
            Ok(()) if !written.is_empty() => happenings::synced(&self.events, binding, &about),
            Err(error) if !error.is_passing() => {
                happenings::not_synced(&self.events, binding, &about, &error.to_string());
            }
            _ => {}
        }
        result
    }

    /// Creates or changes a Work; the Work as it is then, if anything had to be written.
    async fn write(
        &self,
        desired: &DesiredWork,
        seen: Option<Work>,
    ) -> Result<Option<Work>, SyncError> {
        let api: Api<Work> = Api::namespaced(self.kinds.client(), &desired.namespace());
        let mut current = seen;
        for _ in 0..CONFLICT_TRIES {
            let outcome = match &current {
                None => self.create(&api, desired).await,
                Some(work) if work.metadata.deletion_timestamp.is_some() => {
                    return Err(SyncError::Leaving(desired.name.clone()));
                }
                Some(work) => {
                    let Some(patch) = change(work, desired) else {
                        return Ok(None);
                    };
                    api.patch(&desired.name, &PatchParams::default(), &Patch::Merge(patch))
                        .await
                }
            };
            match outcome {
                Ok(work) => return Ok(Some(work)),
                Err(error) if has_code(&error, 409) => {
                    current = api.get_opt(&desired.name).await?;
                }
                Err(error) if has_code(&error, 404) && current.is_some() => current = None,
                Err(error) => return Err(error.into()),
            }
        }
        Err(SyncError::Busy(desired.name.clone()))
    }

    async fn create(&self, api: &Api<Work>, desired: &DesiredWork) -> Result<Work, kube::Error> {
        let work = new_work(desired, &uuid::Uuid::new_v4().to_string());
        let work: Work = serde_json::from_value(work).map_err(kube::Error::SerdeError)?;
        let created = api.create(&PostParams::default(), &work).await;
        match created {
            Err(error) if has_code(&error, 404) => {
                self.make_execution_namespace(&desired.cluster).await?;
                api.create(&PostParams::default(), &work).await
            }
            other => other,
        }
    }

    /// The namespace comes with the Cluster; this is for one whose namespace is not there yet.
    async fn make_execution_namespace(&self, cluster: &str) -> Result<(), kube::Error> {
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": {
            "name": names::execution_namespace(cluster), "labels": { (SYSTEM): "true" } } }))
        .map_err(kube::Error::SerdeError)?;
        let api: Api<Namespace> = Api::all(self.kinds.client());
        match api.create(&PostParams::default(), &namespace).await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, works: impl Iterator<Item = &Arc<Work>>) -> Result<(), SyncError> {
        for work in works {
            let meta = &work.metadata;
            if meta.deletion_timestamp.is_some() {
                continue;
            }
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let api: Api<Work> = Api::namespaced(self.kinds.client(), namespace);
            let name = meta.name.as_deref().unwrap_or_default();
            match api.delete(name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(error) if has_code(&error, 404) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The Works of a binding as the server has them: what a watch has not told yet would be left behind.
    async fn all_works(&self, binding: &Binding) -> Result<Vec<Arc<Work>>, SyncError> {
        if binding.id.is_empty() {
            return Ok(Vec::new());
        }
        let api: Api<Work> = Api::all(self.kinds.client());
        let selector = format!("{}={}", binding.id_label(), binding.id);
        let listed = api.list(&ListParams::default().labels(&selector)).await?;
        Ok(listed.items.into_iter().map(Arc::new).collect())
    }

    /// Lets a deleted binding go: its Works know themselves what is left to do.
    async fn release(&self, binding: &Binding) -> Result<(), SyncError> {
        let own = finalizer(binding);
        if !binding.finalizers.iter().any(|name| name == own) {
            return Ok(());
        }
        let others = binding.finalizers.iter().filter(|name| *name != own);
        let patch = json!({ "metadata": {
            "finalizers": others.collect::<Vec<_>>(), "resourceVersion": binding.resource_version } });
        self.patch(binding, &patch).await
    }

    /// Gives a binding an id and a finalizer where it came without; whether it did.
    async fn adopt(&self, binding: &Binding) -> Result<bool, SyncError> {
        let own = finalizer(binding);
        let guarded = binding.finalizers.iter().any(|name| name == own);
        if guarded && !binding.id.is_empty() {
            return Ok(false);
        }
        let mut metadata = json!({ "resourceVersion": binding.resource_version });
        if !guarded {
            let mut finalizers = binding.finalizers.clone();
            finalizers.push(own.to_owned());
            metadata["finalizers"] = json!(finalizers);
        }
        if binding.id.is_empty() {
            let id = uuid::Uuid::new_v4().to_string();
            metadata["labels"] = json!({ (binding.id_label()): id });
        }
        self.patch(binding, &json!({ "metadata": metadata }))
            .await?;
        Ok(true)
    }

    async fn patch(&self, binding: &Binding, patch: &Value) -> Result<(), SyncError> {
        let api = binding.api(self.kinds.client());
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

    /// The template, unless it is gone: then its binding will go, too.
    async fn template(&self, binding: &Binding) -> Result<Option<DynamicObject>, SyncError> {
        let resource = &binding.spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let api = self
            .kinds
            .api(&resource.api_version, &resource.kind, namespace)
            .await?;
        let Some(mut template) = api.get_opt(&resource.name).await? else {
            return Ok(None);
        };
        // Servers need not say what was asked for.
        template.types.get_or_insert_with(|| kube::core::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        Ok(Some(template))
    }
}

fn finalizer(binding: &Binding) -> &'static str {
    match binding.kind() {
        BindingKind::Namespaced => BINDING_FINALIZER,
        BindingKind::Cluster => CLUSTER_RESOURCE_BINDING_FINALIZER,
    }
}

/// What events about an object point at.
pub(crate) fn reference(object: &DynamicObject) -> ObjectReference {
    let (types, meta) = (object.types.as_ref(), &object.metadata);
    ObjectReference {
        api_version: types.map(|types| types.api_version.clone()),
        kind: types.map(|types| types.kind.clone()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// Whether the server answered with this status.
pub(crate) fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
