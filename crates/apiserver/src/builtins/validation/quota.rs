//! Validation of quotas and limit ranges.

use std::collections::BTreeSet;

use berth_apimachinery::quantity::Quantity;

use super::field::Field;
use super::resources::{check_name, container_name, integer, is_standard, of_pods};
use super::rules::Check::{By, NotNegativeAmount, Unique};
use super::rules::Rule;
use crate::names;

/// The scopes of quotas, with whether a selector may list values for them.
const SCOPES: [(&str, bool); 7] = [
    ("Terminating", false),
    ("NotTerminating", false),
    ("BestEffort", false),
    ("NotBestEffort", false),
    ("PriorityClass", true),
    ("CrossNamespacePodAffinity", false),
    ("VolumeAttributesClass", true),
];
/// Scopes that exclude each other.
const OPPOSITES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];

pub(super) const QUOTA: &[Rule] = &[
    ("spec.hard{}", NotNegativeAmount),
    ("spec", By(hard)),
    ("spec", By(scopes)),
    ("spec.scopes", By(scopes_stay)),
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
    let list = all.texts();
    let fits = |scope: &str, resource: &str| match scope {
        "BestEffort" => matches!(resource, "pods" | "count/pods"),
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => of_pods(resource),
    };
    for scope in &list {
        if !SCOPES.iter().any(|(known, _)| known == scope) {
            all.invalid("unsupported scope");
            continue;
        }
        let mut hard = spec.entries("hard").filter(|(name, _)| is_standard(name));
        if hard.any(|(resource, _)| !fits(scope, resource)) {
            all.invalid("unsupported scope applied to resource");
        }
    }
    if OPPOSITES
        .iter()
        .any(|pair| pair.iter().all(|scope| list.contains(scope)))
    {
        all.invalid("conflicting scopes");
    }
}

fn scopes_stay(scopes: &Field<'_>) {
    let old = scopes
        .old
        .map(|old| BTreeSet::from_iter(scopes.with(old).texts()));
    if old.is_some_and(|old| old != scopes.texts().into_iter().collect()) {
        scopes.invalid("field is immutable");
    }
}

fn scope_selector(list: &Field<'_>) {
    for expression in list.each() {
        // Kubernetes omits the index of the expression.
        let expression = expression.reported_at(list.path.as_str());
        let (name, values) = (expression.get("scopeName"), expression.get("values"));
        let operator = expression.get("operator");
        let known = SCOPES.iter().find(|(known, _)| *known == name.text());
        if known.is_none() {
            name.invalid("unsupported scope");
        }
        if known.is_some_and(|(_, takes_values)| !takes_values) && operator.text() != "Exists" {
            operator.invalid("must be 'Exists' for this scope");
            continue;
        }
        match (operator.text(), values.count()) {
            ("In" | "NotIn", 0) => values.required("must not be empty for 'In' and 'NotIn'"),
            ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", 0) => {}
            ("Exists" | "DoesNotExist", _) => {
                values.invalid("must be empty for 'Exists' and 'DoesNotExist'");
            }
            _ => operator.invalid("not a valid selector operator"),
        }
    }
}

fn limit_type(kind: &Field<'_>) {
    let known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    check_name(kind.text(), kind, known);
}

fn limit(limit: &Field<'_>) {
    let kind = limit.text_of("type");
    let defaults = ["default", "defaultRequest"];
    for list in defaults.map(|list| limit.get(list)) {
        if kind == "Pod" && list.is_set() {
            list.forbidden("may not be specified when `type` is 'Pod'");
        }
    }
    let storage = |list: &str| limit.get(list).get("storage").is_set();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        limit
            .get("limits")
            .required("either minimum or maximum storage value is required");
    }
    let mut seen = BTreeSet::new();
    for list in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        if kind == "Pod" && defaults.contains(&list) {
            continue;
        }
        for (name, amount) in limit.entries(list) {
            if kind == "PersistentVolumeClaim" {
                amount.problem(names::qualified_name(name));
            } else {
                container_name(name, &amount);
            }
            seen.insert(name);
        }
    }
    for name in seen {
        order(limit, name);
    }
}

/// Checks the order of the amounts of one resource: minimum, default request, default, maximum.
fn order(limit: &Field<'_>, name: &str) {
    let at = |list: &str| {
        let list = limit.get(list);
        list.entry(name, &list.value[name])
    };
    let (min, max, ratio) = (at("min"), at("max"), at("maxLimitRequestRatio"));
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
    let Some(most) = ratio.quantity() else { return };
    let one = Quantity::from_integer(1);
    let between = min
        .quantity()
        .zip(max.quantity())
        .filter(|(min, _)| !min.is_zero());
    if most < one || between.is_some_and(|(min, max)| most.ratio(one) > max.ratio(min)) {
        ratio.invalid("must be at least 1 and at most the ratio of maximum and minimum");
    }
}
