//! A writer that sends the status of bindings and of their resource templates to the control plane.

use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::conflict_retry::Attempts;
use berth_apimachinery::merge_diff::merge_diff;
use berth_apimachinery::timestamp;
use std::sync::Arc;

use berth_api::binding::{AggregatedStatusItem, ObjectReference as TemplateReference};
use berth_api::{Binding, BindingKind};
use berth_events::{Event, EventRecorder, Severity};
use berth_interpreter::InterpretError;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::health::{StaleStatus, current_reports, fingerprint};
use super::{StatusChange, StatusInput, update};
use crate::binding_api::binding_api;
use crate::object_reference::object_reference;
use crate::propagation::binding::decode;
use crate::recent_templates::RecentTemplates;
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::{KindError, RestMapper};

/// An error of writing a status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// A request failed.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The resource of the template's kind cannot be found.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// An object cannot be converted from or to JSON.
    #[error("cannot convert the object from or to JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The interpreter cannot aggregate the status.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// Other clients kept changing the object.
    #[error("gave up after repeated conflicts on {0}")]
    Conflicts(String),
}

/// The permission for a write to wait for the reports that follow a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayDefer {
    Yes,
    No,
}

/// The result of writing the status of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The binding shows the status.
    Shown {
        /// The resource version with this status, or `None` if it is not a number.
        version: Option<u64>,
        /// The fingerprint of the condition `Healthy`.
        health: u64,
    },
    /// The write waits for further reports.
    Deferred,
    /// The binding no longer exists.
    Gone,
}

/// A writer for the status of bindings and templates. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct StatusWriter {
    kinds: RestMapper,
    events: EventRecorder,
    interpreter: ResourceInterpreter,
    templates: RecentTemplates,
}

impl StatusWriter {
    /// Creates a writer, which reads and writes the control plane with the client of `kinds`.
    pub(crate) fn new(
        kinds: RestMapper,
        events: EventRecorder,
        interpreter: ResourceInterpreter,
        templates: RecentTemplates,
    ) -> Self {
        Self {
            kinds,
            events,
            interpreter,
            templates,
        }
    }

    /// Updates the status of a binding and then of its template.
    pub(crate) async fn write(
        &self,
        binding: Arc<Binding>,
        input: StatusInput,
        may_defer: MayDefer,
    ) -> Result<Written, StatusError> {
        let (written, items) = self.write_binding(&binding, &input, may_defer).await?;
        let Some(mut items) = items else {
            return Ok(written);
        };
        if input.stale_status == StaleStatus::Exclude {
            items = current_reports(&items, &input.clusters, &binding.spec.resource);
        }
        let result = self.write_template(&binding, &items).await;
        if let Err(error) = &result {
            let reference = binding.reference();
            self.record(&binding, reference, Severity::Warning, &error.to_string());
        }
        result.map(|()| written)
    }

    /// Updates the status of a binding. Returns its aggregated items, or `None` if the binding no longer exists or the write
    /// is deferred.
    async fn write_binding(
        &self,
        binding: &Arc<Binding>,
        input: &StatusInput,
        may_defer: MayDefer,
    ) -> Result<(Written, Option<Vec<AggregatedStatusItem>>), StatusError> {
        let api = binding_api(self.kinds.client(), &binding.key);
        let name = &binding.key.name;
        let parameters = PatchParams::default();
        let mut attempts = Attempts::new(Some(Arc::clone(binding)));
        while attempts.begin() {
            let Some(current) = attempts.known() else {
                return Ok((Written::Gone, None));
            };
            let mut next = Binding::clone(current);
            let change = update(&mut next, input);
            let status = next.status;
            let shown = |version: Option<&str>, conditions: &[Condition]| Written::Shown {
                version: version.and_then(|version| version.parse().ok()),
                health: fingerprint(conditions),
            };
            if change == StatusChange::Progress && may_defer == MayDefer::Yes {
                return Ok((Written::Deferred, None));
            }
            if change == StatusChange::None {
                let stored = &current.status.conditions;
                let written = shown(Some(current.resource_version()), stored);
                return Ok((written, Some(status.aggregated_status)));
            }
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": current.resource_version() },
                "status": {
                    "conditions": status.conditions,
                    "aggregatedStatus": status.aggregated_status,
                },
            }));
            let response = api.patch_status(name, &parameters, &patch).await;
            let read = async {
                let object = api.get_opt(name).await?;
                let current = object.map(|object| decode(&object));
                Ok::<_, StatusError>(current.transpose()?.map(Arc::new))
            };
            if let Some(response) = attempts.end(response, read).await? {
                let title = binding.title();
                let message = format!("Update {title} with AggregatedStatus successfully.");
                self.record(binding, binding.reference(), Severity::Normal, &message);
                let written = shown(
                    response.metadata.resource_version.as_deref(),
                    &status.conditions,
                );
                return Ok((written, Some(status.aggregated_status)));
            }
        }
        Err(StatusError::Conflicts(binding.title()))
    }

    /// Updates the status of a binding's template.
    async fn write_template(
        &self,
        binding: &Binding,
        items: &[AggregatedStatusItem],
    ) -> Result<(), StatusError> {
        let resource = &binding.spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let (api_version, kind) = (&resource.api_version, &resource.kind);
        let api = self.kinds.api(api_version, kind, namespace).await?;
        let (name, parameters) = (&resource.name, PatchParams::default());
        let known = match self.templates.get(resource) {
            Some(template) => Some(template),
            None => read_template(&api, resource).await?,
        };
        let mut attempts = Attempts::new(known);
        while attempts.begin() {
            let Some(template) = attempts.known() else {
                return Ok(());
            };
            let object = serde_json::to_value(&**template)?;
            let now = Time(timestamp::now());
            let aggregated = self
                .interpreter
                .interpret(|rules| rules.aggregate(&object, items, &now))
                .await?;
            let Some(new) = aggregated else {
                return Ok(());
            };
            let old = object.get("status").unwrap_or(&Value::Null);
            let Some(changes) = merge_diff(old, &new) else {
                return Ok(());
            };
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": template.metadata.resource_version },
                "status": changes,
            }));
            let response = api.patch_status(name, &parameters, &patch).await;
            let reference = object_reference(template);
            let read = read_template(&api, resource);
            if let Some(written) = attempts.end(response, read).await? {
                let message = "Update Resource with AggregatedStatus successfully.";
                self.record(binding, reference, Severity::Normal, message);
                self.templates.store(api_version, kind, written);
                return Ok(());
            }
        }
        Err(StatusError::Conflicts(format!("{kind} {name}")))
    }

    /// Records an event about an object: a binding or its template.
    fn record(
        &self,
        binding: &Binding,
        object: ObjectReference,
        severity: Severity,
        message: &str,
    ) {
        let events = self.events.of(component(binding));
        let event = |reason| Event {
            object,
            severity,
            reason,
            message: message.to_owned(),
        };
        match severity {
            Severity::Normal => events.record_routine(event("AggregateStatusSucceed")),
            Severity::Warning => events.record(event("AggregateStatusFailed")),
        }
    }
}

/// Reads a template, with the `apiVersion` and `kind` that a response may lack.
async fn read_template(
    api: &Api<DynamicObject>,
    resource: &TemplateReference,
) -> Result<Option<Arc<DynamicObject>>, kube::Error> {
    let mut found = api.get_opt(&resource.name).await?;
    if let Some(template) = &mut found {
        template.types.get_or_insert_with(|| kube::core::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
    }
    Ok(found.map(Arc::new))
}

/// Returns the name of the Karmada controller that writes the status of bindings of this kind.
fn component(binding: &Binding) -> &'static str {
    match binding.key.kind() {
        BindingKind::Namespaced => "resource-binding-status-controller",
        BindingKind::Cluster => "cluster-resource-binding-status-controller",
    }
}
