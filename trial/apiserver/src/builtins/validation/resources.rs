//! Validation of requests, limits and quotas, and of the names of the resources in them.

use super::field::Field;
use super::rules::Check::{By, Immutable, NotNegativeAmount};
use super::rules::{Rule, apply};
use crate::text_rules;

pub(super) const QUOTA: &[Rule] = &[
    ("spec.hard{}", NotNegativeAmount),
    ("spec.hard", By(quota_amounts)),
    ("spec.scopes", Immutable),
];

const QUOTA_STATUS: &[Rule] = &[
    ("hard{} used{}", NotNegativeAmount),
    ("hard used", By(quota_amounts)),
];

/// Checks the status of a quota.
pub(super) fn quota_status(status: &Field<'_>) {
    apply(QUOTA_STATUS, status);
}

fn quota_amounts(list: &Field<'_>) {
    for (name, amount) in list.value.as_object().into_iter().flatten() {
        let (name, amount) = (name.as_str(), list.entry(name, amount));
        check_name(name, &amount, is_standard(name));
        let is_amount = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage");
        if !name.contains('.') && !is_amount || name.starts_with("services.") {
            integer(&amount);
        }
    }
}

/// Checks the requests and limits of a container or pod.
pub(super) fn of_container(resources: &Field<'_>) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for list in ["limits", "requests"] {
        for (name, amount) in resources.entries(list) {
            container_name(name, &amount);
            NotNegativeAmount.apply(&amount);
            if !is_native(name) {
                integer(&amount);
            }
        }
    }
    for (name, request) in resources.entries("requests") {
        let native = is_native(name) && !name.starts_with("hugepages-");
        let limit = limits.entry(name, &limits.value[name]).quantity();
        match (request.quantity(), limit) {
            (_, None) if !native => {
                limits.required("must be set for resources without overcommitment");
            }
            (Some(amount), Some(limit))
                if native && amount > limit || !native && amount != limit =>
            {
                let relation = if native {
                    "less than or equal to"
                } else {
                    "equal to"
                };
                let request = request.reported_at(requests.path.as_str());
                request.invalid(&format!("must be {relation} {name} limit of {limit}"));
            }
            _ => {}
        }
    }
}

/// Checks that a quantity is an integer.
fn integer(amount: &Field<'_>) {
    if amount.quantity().is_some_and(|amount| !amount.is_integer()) {
        amount.invalid("must be an integer");
    }
}

/// Reports whether Kubernetes, rather than a vendor, defines a resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Checks the name of a container's resource. Problems are reported at `amount`, the entry with this name.
fn container_name(name: &str, amount: &Field<'_>) {
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    check_name(name, amount, known || name.starts_with("hugepages-"));
}

/// Checks the name of a resource. The name must have a domain prefix unless `known` is true.
fn check_name(name: &str, amount: &Field<'_>, known: bool) {
    amount.problem(text_rules::qualified_name(name));
    if !name.contains('/') && !known {
        amount.invalid("must be a standard resource type or fully qualified");
    }
}

/// Reports whether Kubernetes defines this resource of a quota, so that the name needs no domain prefix.
fn is_standard(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    ];
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}
