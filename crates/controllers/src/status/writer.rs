//! Writes the status of bindings and templates.

use std::sync::Arc;

use berth_api::Work;
use berth_api::binding::AggregatedStatusItem;
use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::aggregated::update;
use crate::binding::record::Binding;
use crate::binding::sync::{has_code, reference};
use crate::binding_key::BindingKind;
use crate::interpreter::aggregate;
use crate::kinds::{KindError, Kinds};
use crate::merge_diff::merge_diff;
use crate::said::said;

/// How often a write is tried when others write to the same object.
const CONFLICT_TRIES: usize = 5;

/// Why a status could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    /// The server refuses a request.
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    /// The kind of the template is not served.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// An object does not have the shape of its kind.
    #[error("cannot be read or written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Others keep writing.
    #[error("{0} changes all the time")]
    Busy(String),
}

/// Writes the status of bindings and templates. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StatusWriter {
    kinds: Kinds,
    events: EventRecorder,
}

impl StatusWriter {
    /// A writer to the control plane whose kinds these are.
    pub(crate) fn new(kinds: Kinds, events: EventRecorder) -> Self {
        Self { kinds, events }
    }

    /// Brings the status of a binding and of its template up to date.
    pub(crate) async fn write(
        &self,
        binding: Arc<Binding>,
        works: Vec<Arc<Work>>,
    ) -> Result<(), StatusError> {
        let Some(items) = self.write_binding(&binding, &works).await? else {
            return Ok(());
        };
        let written = self.write_template(&binding, &items).await;
        if let Err(error) = &written {
            self.tell(&binding, Severity::Warning, &error.to_string());
        }
        written
    }

    /// What the members report; nothing where the binding is gone.
    async fn write_binding(
        &self,
        binding: &Arc<Binding>,
        works: &[Arc<Work>],
    ) -> Result<Option<Vec<AggregatedStatusItem>>, StatusError> {
        let api = binding.api(self.kinds.client());
        let mut current = Arc::clone(binding);
        for _ in 0..CONFLICT_TRIES {
            let mut status = current.status.clone();
            if !update(&mut status, &current.spec, works) {
                return Ok(Some(status.aggregated_status));
            }
            let patch = json!({
                "metadata": { "resourceVersion": current.resource_version },
                "status": {
                    "conditions": status.conditions,
                    "aggregatedStatus": status.aggregated_status,
                },
            });
            let patched = api
                .patch_status(
                    &current.key.name,
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .await;
            match patched {
                Ok(_) => {
                    let message = format!(
                        "Update {} with AggregatedStatus successfully.",
                        binding.title()
                    );
                    self.tell(binding, Severity::Normal, &message);
                    return Ok(Some(status.aggregated_status));
                }
                Err(error) if has_code(&error, 409) => {
                    let Some(object) = api.get_opt(&current.key.name).await? else {
                        return Ok(None);
                    };
                    current = Arc::new(Binding::from_object(&object)?);
                }
                Err(error) if has_code(&error, 404) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Err(StatusError::Busy(binding.title()))
    }

    async fn write_template(
        &self,
        binding: &Binding,
        items: &[AggregatedStatusItem],
    ) -> Result<(), StatusError> {
        let resource = &binding.spec.resource;
        let namespace = resource.namespace.as_deref().unwrap_or_default();
        let (api_version, kind) = (&resource.api_version, &resource.kind);
        let api = self.kinds.api(api_version, kind, namespace).await?;
        for _ in 0..CONFLICT_TRIES {
            let Some(mut template) = api.get_opt(&resource.name).await? else {
                return Ok(());
            };
            template.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: api_version.clone(),
                kind: kind.clone(),
            });
            let object = serde_json::to_value(&template)?;
            let now = jiff::Timestamp::now();
            let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
            let Some(new) = aggregate(&object, items, &now) else {
                return Ok(());
            };
            let old = object.get("status").unwrap_or(&Value::Null);
            let Some(changes) = merge_diff(old, &new) else {
                return Ok(());
            };
            let patch = json!({
                "metadata": { "resourceVersion": template.metadata.resource_version },
                "status": changes,
            });
            let patched = api
                .patch_status(
                    &resource.name,
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .await;
            match patched {
                Ok(_) => {
                    self.tell_template(binding, &template);
                    return Ok(());
                }
                Err(error) if has_code(&error, 409) => {}
                Err(error) if has_code(&error, 404) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(StatusError::Busy(format!("{kind} {}", resource.name)))
    }

    fn tell(&self, binding: &Binding, severity: Severity, message: &str) {
        self.events.of(component(binding)).record(Happening {
            object: binding.reference(),
            severity,
            reason: match severity {
                Severity::Normal => "AggregateStatusSucceed",
                Severity::Warning => "AggregateStatusFailed",
            },
            message: message.to_owned(),
        });
    }

    fn tell_template(&self, binding: &Binding, template: &DynamicObject) {
        self.events.of(component(binding)).record(Happening {
            object: reference(template),
            severity: Severity::Normal,
            reason: "AggregateStatusSucceed",
            message: "Update Resource with AggregatedStatus successfully.".to_owned(),
        });
    }
}

/// Who tells of a binding: Karmada has a controller for each of the kinds.
fn component(binding: &Binding) -> &'static str {
    match binding.kind() {
        BindingKind::Namespaced => "resource-binding-status-controller",
        BindingKind::Cluster => "cluster-resource-binding-status-controller",
    }
}
