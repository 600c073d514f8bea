//! Validation of requests and limits.

use berth_apimachinery::quantity::Quantity;
use serde_json::json;

use super::field::Field;
use crate::error::Cause;
use crate::names;

/// Checks the requests and limits of a container.
pub(super) fn of_container(resources: &Field<'_>, causes: &mut Vec<Cause>) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources.entries(list) {
            self::name(name, &amount.path, causes);
            if amount.quantity().is_some_and(|a| a < Quantity::ZERO) {
                amount.invalid("must be greater than or equal to 0", causes);
            }
            if !is_native(name) && amount.quantity().is_some_and(|a| !a.is_integer()) {
                amount.invalid("must be an integer", causes);
            }
        }
    }
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, request) in resources.entries("requests") {
        let limit = limits.field(name).quantity();
        let (Some(requested), Some(most)) = (request.quantity(), limit) else {
            if limit.is_none() && !may_be_overcommitted(name) {
                limits.required("Limit must be set for non overcommitable resources", causes);
            }
            continue;
        };
        let detail = if may_be_overcommitted(name) {
            (requested > most)
                .then(|| format!("must be less than or equal to {name} limit of {most}"))
        } else {
            (requested != most).then(|| format!("must be equal to {name} limit of {most}"))
        };
        if let Some(detail) = detail {
            Field::new(request.value, requests.path.as_str()).invalid(&detail, causes);
        }
    }
    let names =
        |list: &str| -> Vec<&str> { resources.entries(list).map(|(name, _)| name).collect() };
    let all = [names("limits"), names("requests")].concat();
    if all.iter().any(|name| name.starts_with("hugepages-"))
        && !all.iter().any(|name| matches!(*name, "cpu" | "memory"))
    {
        resources.forbidden("HugePages require cpu or memory", causes);
    }
}

/// Reports whether limits of a resource may exceed requests.
fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// Reports whether a resource is defined by Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Checks the name of a container's resource.
pub(super) fn name(name: &str, path: &str, causes: &mut Vec<Cause>) {
    let problems = names::qualified_name(name);
    let well_formed = problems.is_empty();
    let mut say = |detail: &str| causes.push(Cause::invalid(path, &json!(name), detail));
    for problem in &problems {
        say(problem);
    }
    if name.contains('/') {
        return;
    }
    let of_containers =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !of_containers {
        if well_formed && !is_standard(name) {
            say("must be a standard resource type or fully qualified");
        }
        say("must be a standard resource for containers");
    }
}

/// Reports whether a resource name needs no domain.
pub(super) fn is_standard(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "cpu",
        "memory",
        "ephemeral-storage",
        "storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "requests.storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}
