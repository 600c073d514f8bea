//! Validation of built-in kinds.

mod autoscaler;
mod batch;
mod claim;
mod cluster;
mod container;
mod conversion;
mod coordination;
mod definition;
mod environment;
mod ephemeral;
mod field;
mod ingress;
mod network_policy;
mod placement;
mod pod;
mod pod_update;
mod probe;
mod quota;
mod rbac;
mod resize;
mod resources;
mod schedule;
mod secret;
mod security;
mod selector;
mod service;
mod signing_request;
mod status;
mod volume;
mod webhook;
mod workloads;

use serde_json::{Value, json};

use crate::error::Cause;
use crate::resource::{Resource, Subresource};
use crate::selector::{compiled, label_map};
use crate::{builtins, names};
use field::Field;

/// Returns the causes for which an object of a built-in kind is refused.
pub(crate) fn validate(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    subresource: Option<Subresource>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    match subresource {
        Some(Subresource::Finalize) => {
            cluster::finalizers(value, |i| format!("spec.finalizers[{i}]"), &mut causes);
            return causes;
        }
        Some(part @ (Subresource::Status | Subresource::Approval)) => {
            if let Some(old) =
                old.filter(|_| builtins::signing_request::is_signing_request(resource))
            {
                signing_request::status(value, old, part, &mut causes);
            }
            if resource.is("", "pods") {
                observed_generations(&Field::new(&value["status"], "status"), &mut causes);
            }
            status::status(resource, value, old, &mut causes);
            return causes;
        }
        Some(Subresource::Binding) => return causes,
        Some(part @ (Subresource::Ephemeral | Subresource::Resize)) => {
            let Some(old) = old else {
                return causes;
            };
            pod::spec(&Field::new(&value["spec"], "spec"), &mut causes);
            if part == Subresource::Resize {
                resize::update(value, old, &mut causes);
            } else {
                ephemeral::update(value, old, &mut causes);
            }
            return causes;
        }
        Some(Subresource::Scale) | None => {}
    }
    match resource.group.as_str() {
        "" => core(resource, value, old, &mut causes),
        "apps" if resource.plural != "controllerrevisions" => {
            workloads::workload(&resource.plural, value, old, &mut causes);
        }
        _ => other_groups(resource, value, old, &mut causes),
    }
    causes
}

/// Validates the kinds of core/v1.
fn core(resource: &Resource, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    match resource.plural.as_str() {
        "replicationcontrollers" => workloads::replication_controller(value, causes),
        "pods" => {
            let spec = Field::new(spec, "spec");
            pod::spec(&spec, causes);
            match old {
                Some(old) => pod_update::pod(value, old, causes),
                None => pod::no_ephemeral(&spec, "cannot be set on create", causes),
            }
        }
        "services" => service::service(spec, old, causes),
        "persistentvolumeclaims" => claim::claim(value, old, causes),
        "configmaps" => data(value, old, &["data", "binaryData"], causes),
        "secrets" => {
            secret::secret(value, old, causes);
            data(value, old, &["data"], causes);
        }
        "nodes" => cluster::node(value, causes),
        "namespaces" => cluster::finalizers(value, |_| "spec.finalizers".to_owned(), causes),
        "resourcequotas" => quota::quota(value, old, causes),
        "limitranges" => quota::limit_range(value, causes),
        _ => {}
    }
}

/// Validates the kinds of the other groups.
fn other_groups(resource: &Resource, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("batch", "jobs") => batch::job(value, old, causes),
        ("batch", "cronjobs") => batch::cron_job(value, old, causes),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler::autoscaler(value, causes),
        ("networking.k8s.io", "ingresses") => ingress::ingress(value, old, causes),
        ("networking.k8s.io", "ingressclasses") => ingress::class(value, old, causes),
        ("networking.k8s.io", "networkpolicies") => network_policy::network_policy(value, causes),
        ("policy", "poddisruptionbudgets") => coordination::budget(value, causes),
        ("certificates.k8s.io", "certificatesigningrequests") if old.is_none() => {
            signing_request::request(value, causes);
        }
        ("coordination.k8s.io", "leases") => coordination::lease(value, causes),
        ("scheduling.k8s.io", "priorityclasses") => {
            coordination::priority_class(value, old, causes);
        }
        ("storage.k8s.io", "storageclasses") => cluster::storage_class(value, causes),
        ("discovery.k8s.io", "endpointslices") => cluster::slice(value, old, causes),
        ("admissionregistration.k8s.io", _) => webhook::configuration(value, old, causes),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            causes.extend(definition::validate(value, old));
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            rbac::role(value, resource.namespaced(), causes);
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            rbac::binding(value, old, resource.namespaced(), causes);
        }
        _ => {}
    }
}

/// Checks the observed generations of a status.
fn observed_generations(status: &Field<'_>, causes: &mut Vec<Cause>) {
    let conditions = status.items("conditions");
    for holder in std::iter::once(Field::new(status.value, status.path.as_str())).chain(conditions)
    {
        let seen = holder.field("observedGeneration");
        if seen.number().is_some_and(|seen| seen < 0) {
            seen.invalid("must be a non-negative integer", causes);
        }
    }
}

/// Checks that a value is absent or one of the allowed.
fn one_of(value: &Value, path: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    let known = value.as_str().is_none_or(|text| allowed.contains(&text));
    if !known {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        causes.push(Cause::not_supported(path, value, &allowed));
    }
}

/// Checks that numbers are absent or not negative.
fn not_negative(spec: &Value, path: &str, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        if let Some(number) = spec[*field].as_i64().filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            causes.push(Cause::invalid(
                format!("{path}.{field}"),
                &json!(number),
                detail,
            ));
        }
    }
}

/// Reports whether a label selector matches the labels of a template. An invalid selector counts as a match, because
/// other rules reject it.
fn matches_template(selector: &Value, labels: &Value) -> bool {
    compiled(selector).is_none_or(|selector| selector.matches(&label_map(labels)))
}

fn template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    let metadata = &template["metadata"];
    names::labels(&metadata["labels"], &format!("{path}.labels"), causes);
    let annotations = format!("{path}.annotations");
    names::keys(&metadata["annotations"], &annotations, causes);
    let spec = Field::new(&template["spec"], format!("{path}.spec"));
    pod::spec(&spec, causes);
    pod::no_ephemeral(
        &spec,
        "ephemeral containers not allowed in pod template",
        causes,
    );
}

/// Maximum bytes of all values of a ConfigMap or Secret.
const MOST_DATA: usize = 1 << 20;

/// Returns the number of bytes of a Base64 text.
fn decoded_size(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Checks the keys, the size and the immutability of ConfigMaps and Secrets.
fn data(value: &Value, old: Option<&Value>, maps: &[&str], causes: &mut Vec<Cause>) {
    let of_secret = !maps.contains(&"binaryData");
    let mut size = 0;
    for map in maps {
        for (key, text) in value[*map].as_object().into_iter().flatten() {
            if let Some(problem) = names::config_key(key) {
                causes.push(Cause::invalid(
                    format!("{map}[{key}]"),
                    &json!(key),
                    &problem,
                ));
            }
            if *map == "data" && value["binaryData"].get(key).is_some() {
                let detail = "duplicate of key present in binaryData";
                causes.push(Cause::invalid(format!("{map}[{key}]"), &json!(key), detail));
            }
            let text = text.as_str().unwrap_or_default();
            size += match (*map, of_secret) {
                ("data", false) => text.len(),
                _ => decoded_size(text),
            };
        }
    }
    if size > MOST_DATA {
        let field = if of_secret { "data" } else { "[]" };
        let most = u64::try_from(MOST_DATA).unwrap_or_default();
        causes.push(Cause::too_long(field, most));
    }
    if let Some(old) = old.filter(|o| o["immutable"] == true) {
        for field in ["immutable"].iter().chain(maps) {
            if old[*field] != value[*field] {
                let message = "field is immutable when `immutable` is set";
                causes.push(Cause::forbidden(*field, message));
            }
        }
    }
}
