//! What the distributor asks the server, and what it writes: each write for the version that it was decided for.

use std::sync::Arc;

use berth_api::ResourceBinding;
use berth_api::dependency::{DependentObjectReference, read_list};
use berth_api::well_known::{DEPENDENCIES, DEPENDENCIES_FINALIZER};
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_events::EventRecorder;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, TypeMeta};
use serde_json::{Value, json};

use super::attachment::{Write, identified};
use super::happenings;
use super::record::Record;
use crate::binding_key::BindingKey;
use crate::interpreter::{InterpretError, dependencies};
use crate::kinds::{KindError, Kinds};
use crate::resource_type::ResourceType;

/// Why something is not as it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The server refuses a request.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// A kind is not served.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The template cannot be understood.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// A template or a list is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl WriteError {
    /// Whether something changed meanwhile: what is seen next leads here again, and nobody has to be told.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if has_code(error, 409) || has_code(error, 404))
    }
}

/// What was found out about a followed binding.
#[derive(Debug, Default)]
pub(super) struct Explored {
    /// What its template names; nothing where the template is gone.
    pub(super) names: Option<Vec<DependentObjectReference>>,
    /// The kinds of these, as they are served.
    pub(super) kinds: Vec<Arc<ResourceType>>,
    /// Why some of the kinds are missing.
    pub(super) missing: Option<KindError>,
    /// The binding, where it was written.
    pub(super) stored: Option<Box<DynamicObject>>,
}

/// Asks, writes, tells. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) kinds: Kinds,
    pub(super) events: EventRecorder,
}

impl Writer {
    /// Finds out what the template of a binding names, and notes it there.
    pub(super) async fn explore(&self, record: &Record) -> Result<Explored, WriteError> {
        let Some(template) = self.template(record).await? else {
            return Ok(Explored::default());
        };
        let names = match dependencies(&serde_json::to_value(&template)?) {
            Ok(Some(names)) => names,
            // There is no rule for the kind.
            Ok(None) => {
                return Ok(Explored {
                    names: Some(Vec::new()),
                    ..Explored::default()
                });
            }
            Err(error) => {
                let told = happenings::not_explored(&template, &error.to_string());
                self.events.record(told);
                return Err(error.into());
            }
        };
        let stored = self.note(record, &template, &names).await?;
        let mut explored = Explored {
            stored,
            ..Explored::default()
        };
        for reference in &names {
            let found = self.kinds.find(&reference.api_version, &reference.kind);
            match found.await {
                Ok(kind) => explored.kinds.push(kind),
                Err(error) => explored.missing = Some(error),
            }
        }
        explored.names = Some(names);
        Ok(explored)
    }

    /// Notes on a binding what its template names, unless it says so, and guards it.
    async fn note(
        &self,
        record: &Record,
        template: &DynamicObject,
        names: &[DependentObjectReference],
    ) -> Result<Option<Box<DynamicObject>>, WriteError> {
        let noted = record.annotation.as_deref().and_then(read_list);
        let same = noted.is_some_and(|noted| is_same(&noted, names));
        if same && record.is_guarded() {
            return Ok(None);
        }
        let mut metadata = json!({ "resourceVersion": record.version });
        if !same {
            // What Karmada writes for an empty list.
            let list = (!names.is_empty()).then_some(names);
            metadata["annotations"] = json!({ DEPENDENCIES: serde_json::to_string(&list)? });
        }
        if !record.is_guarded() {
            let mut finalizers = record.finalizers.clone();
            finalizers.push(DEPENDENCIES_FINALIZER.to_owned());
            metadata["finalizers"] = json!(finalizers);
        }
        let stored = self.patch(&record.key, metadata, None).await?;
        self.events.record(happenings::explored(template, names));
        if names.is_empty() {
            // Nothing else will tell of it.
            self.events.record(happenings::followed(record));
        }
        Ok(Some(Box::new(stored)))
    }

    /// Lets a binding go that nobody follows any more.
    pub(super) async fn release(&self, record: &Record) -> Result<DynamicObject, WriteError> {
        let finalizers = record.finalizers.iter();
        let others: Vec<&String> = finalizers
            .filter(|name| *name != DEPENDENCIES_FINALIZER)
            .collect();
        let metadata = json!({ "resourceVersion": record.version, "finalizers": others });
        self.patch(&record.key, metadata, None).await
    }

    /// Writes the binding of an object that others name.
    pub(super) async fn attach(
        &self,
        key: &BindingKey,
        existing: Option<&Record>,
        write: Write,
    ) -> Result<DynamicObject, WriteError> {
        match write {
            Write::Create(binding) => {
                let binding = identified(binding, &uuid::Uuid::new_v4().to_string());
                let binding: DynamicObject = serde_json::from_value(binding)?;
                let bindings = self.bindings(&key.namespace);
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
        let bindings = self.bindings(&key.namespace);
        let patched = bindings
            .patch(&key.name, &parameters().0, &Patch::Merge(patch))
            .await?;
        Ok(patched)
    }

    fn bindings(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<ResourceBinding>(&());
        Api::namespaced_with(self.kinds.client(), namespace, &resource)
    }

    /// The template, unless it is gone: then its binding will go, too.
    async fn template(&self, record: &Record) -> Result<Option<DynamicObject>, WriteError> {
        let resource = &record.resource;
        let (api_version, kind) = (&resource.api_version, &resource.kind);
        let namespace = &record.key.namespace;
        let api = self.kinds.api(api_version, kind, namespace).await?;
        let mut found = api.get_opt(&resource.name).await?;
        if let Some(template) = &mut found {
            // Servers need not say what was asked for.
            template.types = Some(TypeMeta {
                api_version: api_version.clone(),
                kind: kind.clone(),
            });
        }
        Ok(found)
    }
}

/// Whether two lists name the same; Karmada's are in no order.
fn is_same(noted: &[DependentObjectReference], names: &[DependentObjectReference]) -> bool {
    noted.len() == names.len() && names.iter().all(|reference| noted.contains(reference))
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
