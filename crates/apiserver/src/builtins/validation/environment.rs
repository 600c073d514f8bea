//! Validation of environment variables, and of references to fields and resources of the pod.

use berth_apimachinery::quantity::Quantity;

use super::checks::set_among;
use super::field::Field;
use super::rules::Check::{By, EmptyOrOneOf, OptionalText, RequiredText, Text};
use super::rules::{Rule, apply};
use crate::names;

const CONTAINER: &[Rule] = &[
    ("env[].name", RequiredText(names::variable)),
    ("env[]", By(value_from)),
    ("env[].valueFrom.fieldRef", By(pod_field)),
    ("env[].valueFrom.resourceFieldRef", By(resource)),
    ("env[].valueFrom.configMapKeyRef", By(key)),
    ("env[].valueFrom.secretKeyRef", By(key)),
    ("envFrom[].prefix", OptionalText(names::variable)),
    ("envFrom", By(env_from)),
];
const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];
/// Fields of a pod that a variable may refer to.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Other fields of a pod that exist.
const OTHER_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks all variables of a container.
pub(super) fn of_container(container: &Field<'_>) {
    apply(CONTAINER, container);
}

const ONE: &str = "must have exactly one source";

fn value_from(variable: &Field<'_>) {
    let from = variable.get("valueFrom");
    if !from.is_set() {
        return;
    }
    let found = set_among(&from, &SOURCES).len();
    if found != 1 {
        from.invalid(ONE);
    } else if !variable.get("value").is_empty() {
        from.invalid("may not be specified when `value` is not empty");
    }
}

fn env_from(all: &Field<'_>) {
    for source in all.each() {
        let found = set_among(&source, &["configMapRef", "secretRef"]);
        if found.len() != 1 {
            all.invalid(ONE);
        }
        for (_, reference) in found {
            RequiredText(names::subdomain).apply(&reference.get("name"));
        }
    }
}

/// Checks a reference to a key of a ConfigMap or Secret.
fn key(reference: &Field<'_>) {
    const RULES: &[Rule] = &[
        ("name", Text(names::subdomain)),
        ("key", RequiredText(names::config_key)),
    ];
    if reference.is_set() {
        apply(RULES, reference);
    }
}

fn pod_field(reference: &Field<'_>) {
    if reference.is_set() && field_path(reference) {
        let path = reference.get("fieldPath");
        if !path.text().ends_with("']") {
            EmptyOrOneOf(FIELDS).apply(&path);
        }
    }
}

/// Checks a reference to a field of the pod. Returns false if the field does not exist.
pub(super) fn field_path(reference: &Field<'_>) -> bool {
    let path = reference.get("fieldPath");
    let keyed = path.text().strip_suffix("']");
    if path.is_empty() {
        path.required("");
    } else if let Some((map, key)) = keyed.and_then(|rest| rest.split_once("['")) {
        if matches!(map, "metadata.labels" | "metadata.annotations") {
            reference.problem(names::qualified_name(key));
            return true;
        }
        path.invalid("only labels and annotations have keys");
    } else if reference.text_of("apiVersion") != "v1" {
        path.invalid("requires apiVersion v1");
    } else if !FIELDS.contains(&path.text()) && !OTHER_FIELDS.contains(&path.text()) {
        path.invalid("is not a field of pods that can be referred to");
    } else {
        return true;
    }
    false
}

fn resource(reference: &Field<'_>) {
    if reference.is_set() {
        resource_field(reference);
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn resource_field(reference: &Field<'_>) {
    let (resource, divisor) = (reference.get("resource"), reference.get("divisor"));
    if resource.is_empty() {
        return resource.required("");
    }
    if !RESOURCES.contains(&resource.text()) && !resource.text().contains(".hugepages-") {
        return resource.not_supported(RESOURCES);
    }
    let amounts: &[&str] = match resource.text() {
        "limits.cpu" | "requests.cpu" => &["0", "1m", "1"],
        _ => &[
            "0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ],
    };
    let is_amount = |amount| amounts.iter().any(|a| Quantity::parse(a) == Ok(amount));
    if divisor.quantity().is_some_and(|amount| !is_amount(amount)) {
        divisor.invalid(&format!("must be one of {}", amounts.join(", ")));
    }
}
