//! Validation of the status of built-in kinds, as kube-apiserver validates it. Device claims and allocated resources in
//! the status of pods are not validated.

mod job;
mod load_balancer;
mod pod;

use serde_json::Value;

use super::checks::qualified;
use super::field::Field;
use super::rules::Check::{
    By, ExactlyOneOf, NotNegative, NotNegativeAmount, OneOf, Required, RequiredOneOf, Unique,
};
use super::rules::{Rule, apply};
use super::{other_kinds, resources};
use crate::resource::Resource;

/// Pairs of replica counts in a status. The first count must not exceed the second count.
const AT_MOST: [(&str, &str); 6] = [
    ("fullyLabeledReplicas", "replicas"),
    ("readyReplicas", "replicas"),
    ("currentReplicas", "replicas"),
    ("updatedReplicas", "replicas"),
    ("availableReplicas", "replicas"),
    ("availableReplicas", "readyReplicas"),
];

const DISRUPTION_BUDGET: &[Rule] = &[
    ("conditions", Unique("type")),
    ("conditions[].type", By(qualified)),
    (
        "conditions[].status",
        ExactlyOneOf(&["False", "True", "Unknown"]),
    ),
    ("conditions[].observedGeneration", NotNegative),
    (
        "conditions[].lastTransitionTime conditions[].reason",
        Required,
    ),
];

const SIGNING_REQUEST: &[Rule] = &[
    ("conditions", Unique("type")),
    ("conditions[].type", Required),
    (
        "conditions[].status",
        RequiredOneOf(&["False", "True", "Unknown"]),
    ),
    ("conditions[]", By(decision)),
    ("certificate", By(certificate)),
];

const CLAIM: &[Rule] = &[
    ("capacity{} allocatedResources{}", NotNegativeAmount),
    ("allocatedResourceStatuses", By(resizes)),
];

/// Checks the status of an existing object.
pub(super) fn status(resource: &Resource, object: &Field<'_>) {
    let status = object.get("status");
    let counts = status.value.as_object().into_iter().flatten();
    for (name, _) in counts {
        NotNegative.apply(&status.get(name));
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apps", "daemonsets") => collisions(&status),
        ("apps", _) => {
            replicas(&status);
            collisions(&status);
        }
        ("", "replicationcontrollers") => replicas(&status),
        ("batch", "jobs") => job::status(object),
        ("policy", "poddisruptionbudgets") => apply(DISRUPTION_BUDGET, &status),
        ("", "pods") => pod::status(object),
        ("", "services") => load_balancer::of_service(object),
        ("networking.k8s.io", "ingresses") => load_balancer::of_ingress(&status),
        ("", "persistentvolumeclaims") => apply(CLAIM, &status),
        ("", "resourcequotas") => resources::quota_status(&status),
        ("", "namespaces") => phase(object),
        ("", "nodes") => node(&status),
        ("certificates.k8s.io", "certificatesigningrequests") => apply(SIGNING_REQUEST, &status),
        _ => {}
    }
}

fn resizes(states: &Field<'_>) {
    const STATES: &[&str] = &[
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    for state in states
        .value
        .as_object()
        .into_iter()
        .flat_map(|all| all.values())
    {
        OneOf(STATES).apply(&states.with(state));
    }
}

fn replicas(status: &Field<'_>) {
    let number = |name: &str| status.get(name).number().unwrap_or(0);
    for (part, total) in AT_MOST {
        if number(part) > number(total) {
            let detail = format!("cannot be greater than {total}");
            status.get(part).invalid(&detail);
        }
    }
}

fn collisions(status: &Field<'_>) {
    let count = status.get("collisionCount");
    let before = count.old.and_then(Value::as_i64);
    if before.is_some_and(|before| count.number().unwrap_or(0) < before) {
        count.invalid("cannot be decremented");
    }
}

fn phase(namespace: &Field<'_>) {
    // As in Kubernetes, the path spells the phase with a capital letter.
    let phase = namespace.get("status.phase").reported_at("status.Phase");
    let deleting = namespace.get("metadata.deletionTimestamp").is_set();
    match (deleting, phase.text()) {
        (false, "Active") | (true, "Terminating") => {}
        (false, _) => phase.invalid("may only be 'Active' if `deletionTimestamp` is empty"),
        (true, _) => {
            phase.invalid("may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    }
}

fn decision(condition: &Field<'_>) {
    let (kind, status) = (condition.text_of("type"), condition.get("status"));
    let is_decision = matches!(kind, "Approved" | "Denied" | "Failed");
    if is_decision && matches!(status.text(), "False" | "Unknown") {
        status.not_supported(&["True"]);
    }
}

fn certificate(certificate: &Field<'_>) {
    let before = certificate.old.and_then(Value::as_str).unwrap_or_default();
    if !before.is_empty() && before != certificate.text() {
        certificate.forbidden("updates may not modify existing certificate content");
    }
}

fn node(status: &Field<'_>) {
    for list in ["capacity", "allocatable"] {
        other_kinds::amounts(&status.get(list));
    }
    let mut known = Vec::new();
    for address in status.items("addresses") {
        if known.contains(&address.value) {
            address.duplicate();
        }
        known.push(address.value);
    }
}
