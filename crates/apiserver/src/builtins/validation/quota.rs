//! Validation of quotas and limit ranges.

use super::field::Field;
use super::resources::{check_name, container_name, integer, is_standard, of_pods};
use super::rules::Check::{By, Immutable, NotNegativeAmount, Unique};
use super::rules::Rule;
use crate::names;

/// The scopes of quotas.
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

pub(super) const QUOTA: &[Rule] = &[
    ("spec.hard{}", NotNegativeAmount),
    ("spec", By(hard)),
    ("spec", By(scopes)),
    ("spec.scopes", Immutable),
    ("spec.scopeSelector.matchExpressions", By(scope_selector)),
];

pub(super) const LIMIT_RANGE: &[Rule] = &[
    ("spec.limits", Unique("type")),
    ("spec.limits[].type", By(limit_type)),
    ("spec.limits[]", By(limit)),
];

fn hard(spec: &Field<'_>) {
    for (name, amount) in spec.entries("hard") {
        check_name(name, &amount, is_standard(name));
        let is_amount = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage");
        if !name.contains('.') && !is_amount || name.starts_with("services.") {
            integer(&amount);
        }
    }
}

fn scopes(spec: &Field<'_>) {
    let all = spec.get("scopes");
    let fits = |scope: &str, resource: &str| match scope {
        "BestEffort" => matches!(resource, "pods" | "count/pods"),
        "VolumeAttributesClass" => true,
        _ => of_pods(resource),
    };
    for scope in all.texts() {
        let mut hard = spec.entries("hard").filter(|(name, _)| is_standard(name));
        if !SCOPES.contains(&scope) {
            all.invalid("unsupported scope");
        } else if hard.any(|(resource, _)| !fits(scope, resource)) {
            all.invalid("unsupported scope applied to resource");
        }
    }
}

fn scope_selector(list: &Field<'_>) {
    for expression in list.each() {
        // Kubernetes omits the index of the expression.
        let expression = expression.reported_at(list.path.as_str());
        let (name, values) = (expression.get("scopeName"), expression.get("values"));
        if !SCOPES.contains(&name.text()) {
            name.invalid("unsupported scope");
        }
        match (expression.text_of("operator"), values.count()) {
            ("In" | "NotIn", 0) => values.required("must not be empty for 'In' and 'NotIn'"),
            ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", 0) => {}
            ("Exists" | "DoesNotExist", _) => {
                values.invalid("must be empty for 'Exists' and 'DoesNotExist'");
            }
            _ => expression
                .get("operator")
                .invalid("not a valid selector operator"),
        }
    }
}

fn limit_type(kind: &Field<'_>) {
    let known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    check_name(kind.text(), kind, known);
}

fn limit(limit: &Field<'_>) {
    let kind = limit.text_of("type");
    for list in ["default", "defaultRequest"].map(|list| limit.get(list)) {
        if kind == "Pod" && list.is_set() {
            return list.forbidden("may not be specified when `type` is 'Pod'");
        }
    }
    let storage = |list: &str| limit.get(list).get("storage").is_set();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        limit
            .get("limits")
            .required("either minimum or maximum storage value is required");
    }
    let mut seen = Vec::new();
    for list in ["max", "min", "default", "defaultRequest"] {
        for (name, amount) in limit.entries(list) {
            if kind == "PersistentVolumeClaim" {
                amount.problem(names::qualified_name(name));
            } else {
                container_name(name, &amount);
            }
            if !seen.contains(&name) {
                seen.push(name);
                order(limit, name);
            }
        }
    }
}

/// Checks the order of the amounts of one resource: minimum, default request, default, maximum.
fn order(limit: &Field<'_>, name: &str) {
    let at = |list: &str| {
        let list = limit.get(list);
        list.entry(name, &list.value[name])
    };
    let (min, max) = (at("min"), at("max"));
    let (request, default) = (at("defaultRequest"), at("default"));
    // The field to report, and the two amounts in their order.
    for (field, low, high) in [
        (&min, &min, &max),
        (&request, &min, &request),
        (&request, &request, &max),
        (&request, &request, &default),
        (&default, &min, &default),
        (&default, &default, &max),
    ] {
        if let Some((low, high)) = low.quantity().zip(high.quantity())
            && low > high
        {
            field.invalid(&format!("{low} is greater than {high}"));
        }
    }
}
