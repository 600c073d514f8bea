//! The distributor's requests to the control plane. Each patch contains the resource version on which it is based.

use berth_apimachinery::api_error::{api_error_message, is_stale, is_unreachable};
use std::sync::Arc;

use berth_api::BindingKey;
use berth_api::dependency::{DependentObjectReference, read_list};
use berth_api::well_known::{DEPENDENCIES, DEPENDENCIES_FINALIZER};
use berth_events::EventRecorder;
use berth_interpreter::InterpretError;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::TypeMeta;
use serde_json::{Value, json};

use super::attachment::{Write, with_permanent_id};
use super::record::BindingRecord;
use super::recorded_events;
use crate::binding_api::binding_api;
use crate::reconciler::work_queue::RetryableError;
use crate::resource_interpreter::ResourceInterpreter;
use crate::resource_type::ResourceType;
use crate::rest_mapper::{KindError, RestMapper};

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// A request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The resource of a kind cannot be found.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The interpreter cannot interpret the template.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// A template or a list cannot be serialized.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl RetryableError for WriteError {
    fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if is_stale(error))
    }

    fn is_outage(&self) -> bool {
        match self {
            Self::Api(error) => is_unreachable(error),
            Self::Kind(KindError::Unknown { source, .. }) => is_unreachable(&**source),
            _ => false,
        }
    }
}

/// The dependencies of an independent binding.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// The dependencies of the template, or `None` if the template does not exist.
    pub(super) dependencies: Option<Vec<DependentObjectReference>>,
    /// The resource types of the dependencies.
    pub(super) kinds: Vec<Arc<ResourceType>>,
    /// The error about a dependency whose kind cannot be found.
    pub(super) unserved: Option<KindError>,
    /// The written binding, or `None` if no write was needed.
    pub(super) stored: Option<Box<DynamicObject>>,
}

/// A client that reads and writes the control plane, and records events. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) mapper: RestMapper,
    pub(super) events: EventRecorder,
    pub(super) interpreter: ResourceInterpreter,
}

impl Writer {
    /// Resolves the dependencies of a binding's template, and stores them in the binding.
    pub(super) async fn resolve(&self, record: &BindingRecord) -> Result<Resolved, WriteError> {
        let Some(template) = self.template(record).await? else {
            return Ok(Resolved::default());
        };
        let object = serde_json::to_value(&template)?;
        let found = self
            .interpreter
            .interpret(|rules| rules.dependencies(&object))
            .await;
        let dependencies = match found {
            Ok(Some(dependencies)) => dependencies,
            // The interpreter has no rule that finds the dependencies of this kind of template.
            Ok(None) => {
                return Ok(Resolved {
                    dependencies: Some(Vec::new()),
                    ..Resolved::default()
                });
            }
            Err(error) => {
                let event = recorded_events::resolve_failed(&template, &error.to_string());
                self.events.record(event);
                return Err(error.into());
            }
        };
        let stored = self
            .store_dependencies(record, &template, &dependencies)
            .await?;
        let mut resolved = Resolved {
            stored,
            ..Resolved::default()
        };
        for reference in &dependencies {
            let found = self.mapper.find(&reference.api_version, &reference.kind);
            match found.await {
                Ok(kind) => resolved.kinds.push(kind),
                Err(error) => resolved.unserved = Some(error),
            }
        }
        resolved.dependencies = Some(dependencies);
        Ok(resolved)
    }

    /// Stores dependencies in the annotation of a binding if they differ from the stored list, and adds the finalizer.
    async fn store_dependencies(
        &self,
        record: &BindingRecord,
        template: &DynamicObject,
        dependencies: &[DependentObjectReference],
    ) -> Result<Option<Box<DynamicObject>>, WriteError> {
        let stored = record.annotation.as_deref().and_then(read_list);
        let is_equal = stored.is_some_and(|stored| have_same_items(&stored, dependencies));
        if is_equal && record.has_finalizer() {
            return Ok(None);
        }
        let mut metadata = json!({ "resourceVersion": record.version });
        if !is_equal {
            // Karmada writes `null` for an empty list.
            let list = (!dependencies.is_empty()).then_some(dependencies);
            metadata["annotations"] = json!({ DEPENDENCIES: serde_json::to_string(&list)? });
        }
        if !record.has_finalizer() {
            let mut finalizers = record.finalizers.clone();
            finalizers.push(DEPENDENCIES_FINALIZER.to_owned());
            metadata["finalizers"] = json!(finalizers);
        }
        let stored = self.patch(&record.key, metadata, None).await?;
        self.events
            .record(recorded_events::resolved(template, dependencies));
        if dependencies.is_empty() {
            // Without dependencies, no write of an attached binding records this event.
            self.events.record(recorded_events::synced(record));
        }
        Ok(Some(Box::new(stored)))
    }

    /// Removes the distributor's finalizer from a binding that has no attached bindings.
    pub(super) async fn release(
        &self,
        record: &BindingRecord,
    ) -> Result<DynamicObject, WriteError> {
        let finalizers = record.finalizers.iter();
        let others: Vec<&String> = finalizers
            .filter(|name| *name != DEPENDENCIES_FINALIZER)
            .collect();
        let metadata = json!({ "resourceVersion": record.version, "finalizers": others });
        self.patch(&record.key, metadata, None).await
    }

    /// Writes an attached binding.
    pub(super) async fn attach(
        &self,
        key: &BindingKey,
        existing: Option<&BindingRecord>,
        write: Write,
    ) -> Result<DynamicObject, WriteError> {
        match write {
            Write::Create(binding) => {
                let binding = with_permanent_id(binding, &uuid::Uuid::new_v4().to_string());
                let binding: DynamicObject = serde_json::from_value(binding)?;
                let bindings = self.bindings(key);
                Ok(bindings.create(&parameters().1, &binding).await?)
            }
            Write::Patch(mut patch) => {
                let mut metadata = patch["metadata"].take();
                if metadata.is_null() {
                    metadata = json!({});
                }
                metadata["resourceVersion"] = json!(existing.map(|record| &record.version));
                let spec = patch.get_mut("spec").map(Value::take);
                self.patch(key, metadata, spec).await
            }
        }
    }

    async fn patch(
        &self,
        key: &BindingKey,
        metadata: Value,
        spec: Option<Value>,
    ) -> Result<DynamicObject, WriteError> {
        let mut patch = json!({ "metadata": metadata });
        if let Some(spec) = spec {
            patch["spec"] = spec;
        }
        let bindings = self.bindings(key);
        let patched = bindings
            .patch(&key.name, &parameters().0, &Patch::Merge(patch))
            .await?;
        Ok(patched)
    }

    fn bindings(&self, key: &BindingKey) -> Api<DynamicObject> {
        binding_api(self.mapper.client(), key)
    }

    /// Returns the template, if it exists.
    async fn template(&self, record: &BindingRecord) -> Result<Option<DynamicObject>, WriteError> {
        let resource = &record.resource;
        let (api_version, kind) = (&resource.api_version, &resource.kind);
        let namespace = record.key.namespace_or_empty();
        let api = self.mapper.api(api_version, kind, namespace).await?;
        let mut found = api.get_opt(&resource.name).await?;
        if let Some(template) = &mut found {
            // Responses may lack `apiVersion` and `kind`.
            template.types = Some(TypeMeta {
                api_version: api_version.clone(),
                kind: kind.clone(),
            });
        }
        Ok(found)
    }
}

/// Reports whether two lists have the same items. The order is ignored, because Karmada's lists are unordered.
fn have_same_items(
    stored: &[DependentObjectReference],
    dependencies: &[DependentObjectReference],
) -> bool {
    stored.len() == dependencies.len() && dependencies.iter().all(|item| stored.contains(item))
}

fn parameters() -> (PatchParams, PostParams) {
    let manager = Some("berth-dependencies".to_owned());
    let patch = PatchParams {
        field_manager: manager.clone(),
        ..PatchParams::default()
    };
    let create = PostParams {
        field_manager: manager,
        ..PostParams::default()
    };
    (patch, create)
}
