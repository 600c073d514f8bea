//! Validation of built-in kinds. Tables of rules list the fields of each kind and the checks of each field.

mod autoscaler;
mod batch;
mod checks;
mod config;
mod container;
mod custom_resource_definition;
mod field;
pub(crate) mod metadata;
mod network;
mod other_kinds;
mod persistent_volume_claim;
mod pod;
mod pod_scheduling;
mod pod_update;
mod rbac;
mod resources;
mod rules;
mod service;
mod status;
mod volume;
mod webhook;
mod workloads;

use serde_json::Value;

use crate::error::Cause;
use crate::resource::{Resource, Subresource};
use crate::selector::{compiled, label_map};
use field::{Causes, Field};
use rules::{Rule, apply};

/// Returns the causes for which an object of a built-in kind is refused. The result is empty for a valid object.
pub(crate) fn validate(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    subresource: Option<Subresource>,
) -> Vec<Cause> {
    let causes = Causes::default();
    let object = Field::root(value, old, &causes);
    match subresource {
        None | Some(Subresource::Scale) => {
            apply(rules(resource), &object);
            more(resource, &object);
        }
        Some(Subresource::Finalize) => other_kinds::finalizers(&object, true),
        Some(Subresource::Status | Subresource::Approval) => status::status(resource, &object),
        Some(Subresource::Ephemeral) => {
            pod::spec(&object.get("spec"));
            pod_update::ephemeral(&object);
        }
        Some(Subresource::Resize) => pod::spec(&object.get("spec")),
        Some(Subresource::Binding) => {}
    }
    causes.take()
}

/// Applies the checks that the table of a kind cannot express.
fn more(resource: &Resource, object: &Field<'_>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pods(object),
        ("", "services") => apply(service::SERVICE, &object.get("spec")),
        ("", "persistentvolumeclaims") => persistent_volume_claim::claim(object),
        ("", "configmaps") => config::config_map(object),
        ("", "secrets") => config::secret(object),
        ("", "namespaces") => other_kinds::finalizers(object, false),
        ("", kind @ "replicationcontrollers") => workloads::workload(kind, object),
        ("apps", kind) if kind != "controllerrevisions" => workloads::workload(kind, object),
        ("admissionregistration.k8s.io", _) => webhook::configuration(object),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            rbac::binding(object, resource.namespaced());
        }
        _ => {}
    }
}

/// Returns the table of rules of a kind.
fn rules(resource: &Resource) -> &'static [Rule] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "nodes") => other_kinds::NODE,
        ("", "resourcequotas") => resources::QUOTA,
        ("batch", "jobs") => batch::JOB,
        ("batch", "cronjobs") => batch::CRON_JOB,
        ("autoscaling", "horizontalpodautoscalers") => autoscaler::AUTOSCALER,
        ("networking.k8s.io", "ingresses") => network::INGRESS,
        ("networking.k8s.io", "ingressclasses") => network::INGRESS_CLASS,
        ("networking.k8s.io", "networkpolicies") => network::NETWORK_POLICY,
        ("discovery.k8s.io", "endpointslices") => network::ENDPOINT_SLICE,
        ("policy", "poddisruptionbudgets") => other_kinds::DISRUPTION_BUDGET,
        ("coordination.k8s.io", "leases") => other_kinds::LEASE,
        ("rbac.authorization.k8s.io", "roles") => rbac::ROLE,
        ("rbac.authorization.k8s.io", "clusterroles") => rbac::CLUSTER_ROLE,
        ("scheduling.k8s.io", "priorityclasses") => other_kinds::PRIORITY_CLASS,
        ("storage.k8s.io", "storageclasses") => other_kinds::STORAGE_CLASS,
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            custom_resource_definition::DEFINITION
        }
        _ => &[],
    }
}

fn pods(pod: &Field<'_>) {
    pod::spec(&pod.get("spec"));
    pod_update::pod(pod);
}

/// Reports whether a label selector matches the labels of a template. The result is true for an invalid selector,
/// because other rules report it.
fn matches_template(selector: &Value, labels: &Value) -> bool {
    compiled(selector).is_none_or(|selector| selector.matches(&label_map(labels)))
}
