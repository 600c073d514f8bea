//! The wanted objects of a binding: its Works and its template, with the interpreter of the control plane.

use berth_api::well_known::{CONDITION_APPLIED, TEMPLATE_GENERATION};
use berth_api::{
    Binding, ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, Work,
    condition,
};
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::json_fields::generation;
use berth_component_base::paged_list::list_all;
use berth_controllers::propagation::difference::reports_drift;
use berth_interpreter::{Interpreter, names_kind};
use kube::Client;
use kube::api::Api;
use serde_json::{Value, to_value};

use crate::binding_objects::{template, works};
use crate::explain::ExplainError;

/// The wanted objects of a binding.
pub(super) struct Wanted {
    /// The Works, and the clusters that have none yet, in the order of the clusters' names.
    pub(super) works: Vec<ClusterWork>,
    /// The template, or `None` if it cannot be read.
    pub(super) template: Option<Value>,
    pub(super) interpreter: Interpreter,
    pub(super) notes: Vec<String>,
}

/// The Work of a binding in one cluster.
pub(super) struct ClusterWork {
    pub(super) cluster: String,
    /// The replicas that the scheduler assigned. `None` if the cluster is no target.
    pub(super) replicas: Option<i32>,
    /// The Work, or `None` if it does not exist.
    pub(super) work: Option<Work>,
    /// The generation of the template, or 0.
    template_generation: i64,
}

impl Wanted {
    /// Reads the wanted objects of a binding.
    ///
    /// # Errors
    /// Fails if the Works cannot be read.
    pub(super) async fn read(client: &Client, binding: &Binding) -> Result<Self, ExplainError> {
        let stored = works(client, binding).await?;
        Ok(Self::of(client, binding, stored).await)
    }

    /// Reads what belongs to the Works of a binding.
    pub(super) async fn of(
        client: &Client,
        binding: &Binding,
        mut stored: Vec<(String, Work)>,
    ) -> Self {
        let mut notes = Vec::new();
        let resource = &binding.spec.resource;
        let read = template(client, resource).await;
        let template = match read.map(|found| found.and_then(|(_, object)| to_value(object).ok())) {
            Ok(Some(template)) => Some(template),
            Ok(None) => {
                notes.push(format!(
                    "the template {} {} does not exist",
                    resource.kind, resource.name
                ));
                None
            }
            Err(reason) => {
                notes.push(format!("the template cannot be read: {reason}"));
                None
            }
        };
        let template_generation = template.as_ref().map_or(0, generation);
        let mut works: Vec<ClusterWork> = binding
            .spec
            .targets()
            .into_iter()
            .map(|target| ClusterWork {
                work: stored
                    .iter()
                    .position(|(cluster, _)| *cluster == target.name)
                    .map(|index| stored.swap_remove(index).1),
                cluster: target.name,
                replicas: Some(target.replicas),
                template_generation,
            })
            .collect();
        works.extend(stored.into_iter().map(|(cluster, work)| ClusterWork {
            cluster,
            replicas: None,
            work: Some(work),
            template_generation,
        }));
        works.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        let interpreter = interpreter(client, binding, &mut notes).await;
        Self {
            works,
            template,
            interpreter,
            notes,
        }
    }
}

impl ClusterWork {
    /// Returns the wanted object.
    pub(super) fn manifest(&self) -> Option<&Value> {
        self.work.as_ref()?.spec.workload.manifests.first()
    }

    /// Reports whether the wanted object is made from the newest template, as far as it tells.
    pub(super) fn is_current(&self) -> bool {
        let rendered = self.manifest().and_then(|manifest| {
            let annotations = manifest.pointer("/metadata/annotations")?;
            annotations.get(TEMPLATE_GENERATION)?.as_str()?.parse().ok()
        });
        rendered.is_none_or(|rendered: i64| rendered >= self.template_generation)
    }

    /// Returns remarks about a Work whose object is not brought in line with its manifest.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(work) = &self.work else {
            return notes;
        };
        if work.metadata.deletion_timestamp.is_some() {
            notes.push("the Work is being deleted".to_owned());
        } else if self.replicas.is_none() {
            notes.push("the workload leaves this cluster".to_owned());
        }
        if work.spec.suspend_dispatching == Some(true) {
            notes.push("dispatching is suspended, so differences stay".to_owned());
        }
        let manifest = self.manifest();
        if manifest.is_some_and(reports_drift) {
            notes.push("differences are reported and stay (drift.berth/mode=report)".to_owned());
        }
        if !self.is_current() {
            notes.push("the Work does not contain the newest template yet".to_owned());
        }
        let conditions = work.status.as_ref().map(|status| &status.conditions[..]);
        let applied = condition::find(conditions.unwrap_or_default(), CONDITION_APPLIED);
        if let Some(applied) = applied.filter(|applied| applied.status == "False") {
            notes.push(format!("the Work is not applied: {}", applied.message));
        }
        notes
    }
}

/// Returns the interpreter with the scripts of the control plane. Webhooks are not called.
async fn interpreter(client: &Client, binding: &Binding, notes: &mut Vec<String>) -> Interpreter {
    let (api_version, kind) = (
        &binding.spec.resource.api_version,
        &binding.spec.resource.kind,
    );
    let webhooks = Api::<ResourceInterpreterWebhookConfiguration>::all(client.clone());
    if let Ok(configurations) = list_all(&webhooks).await {
        let mut webhooks = configurations.iter().flat_map(|one| &one.spec.webhooks);
        if webhooks.any(|webhook| names_kind(webhook, api_version, kind)) {
            notes.push(format!(
                "an interpreter webhook is registered for {kind}; it is not called, so fields that it lets members keep are reported"
            ));
        }
    }
    let scripts = Api::<ResourceInterpreterCustomization>::all(client.clone());
    match list_all(&scripts).await {
        Ok(scripts) => Interpreter::with(scripts),
        Err(error) => {
            if !has_code(&error, 404) {
                let reason = api_error_message(&error);
                notes.push(format!(
                    "the resource interpreter customizations cannot be read, so only built-in rules apply: {reason}"
                ));
            }
            Interpreter::default()
        }
    }
}
