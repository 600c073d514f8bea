//! Validation of quotas and limit ranges.

use std::collections::BTreeSet;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::field::Field;
use super::resources;
use crate::error::Cause;
use crate::names;

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that exclude each other.
const OPPOSITES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
];
/// Resources of pods, the only ones that scopes of pods can restrict.
const OF_PODS: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "count/pods",
];

pub(super) fn quota(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    for (name, amount) in spec.entries("hard") {
        quota_name(name, &amount.path, causes);
        if amount.quantity().is_some_and(|a| a < Quantity::ZERO) {
            amount.invalid("must be greater than or equal to 0", causes);
        }
        let is_count = !name.contains('.') && !OF_PODS[..3].contains(&name) && name != "storage"
            || name.starts_with("services.");
        if is_count && amount.quantity().is_some_and(|a| !a.is_integer()) {
            amount.invalid("must be an integer", causes);
        }
    }
    scopes(&spec, causes);
    for expression in spec.field("scopeSelector").items("matchExpressions") {
        scope_expression(&expression, causes);
    }
    let chosen = spec.field("scopes");
    let as_set = |scopes: &Value| -> BTreeSet<String> {
        let scopes = scopes.as_array().into_iter().flatten();
        scopes.map(Value::to_string).collect()
    };
    if old.is_some_and(|old| as_set(&old["spec"]["scopes"]) != as_set(chosen.value)) {
        chosen.invalid("field is immutable", causes);
    }
}

fn quota_name(name: &str, path: &str, causes: &mut Vec<Cause>) {
    let problems = names::qualified_name(name);
    let well_formed = problems.is_empty();
    let mut say = |detail: &str| causes.push(Cause::invalid(path, &json!(name), detail));
    for problem in &problems {
        say(problem);
    }
    if name.contains('/') || resources::is_standard(name) {
        return;
    }
    if well_formed {
        say("must be a standard resource type or fully qualified");
    }
    say("must be a standard resource for quota");
}

fn scopes(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let all = spec.field("scopes");
    let list: Vec<&str> = all
        .value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for scope in &list {
        if !SCOPES.contains(scope) {
            all.invalid("unsupported scope", causes);
        }
        let fits = |resource: &str| match *scope {
            "BestEffort" => matches!(resource, "pods" | "count/pods"),
            "Terminating"
            | "NotTerminating"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity" => OF_PODS.contains(&resource),
            "VolumeAttributesClass" => {
                matches!(resource, "persistentvolumeclaims" | "requests.storage")
            }
            _ => true,
        };
        for (resource, _) in spec
            .entries("hard")
            .filter(|(name, _)| resources::is_standard(name))
        {
            if !fits(resource) {
                all.invalid("unsupported scope applied to resource", causes);
            }
        }
    }
    for pair in OPPOSITES {
        if pair.iter().all(|scope| list.contains(scope)) {
            all.invalid("conflicting scopes", causes);
        }
    }
}

fn scope_expression(expression: &Field<'_>, causes: &mut Vec<Cause>) {
    // Kubernetes omits the index of the expression.
    let list = expression.path.split('[').next().unwrap_or_default();
    let at = |field: &str| Field::new(&expression.value[field], format!("{list}.{field}"));
    let (name, operator, values) = (at("scopeName"), at("operator"), at("values"));
    if !SCOPES.contains(&name.text()) {
        name.invalid("unsupported scope", causes);
    }
    let takes_no_values = matches!(
        name.text(),
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "CrossNamespacePodAffinity"
    );
    if takes_no_values && operator.text() != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                   ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                   ResourceQuotaScopeCrossNamespacePodAffinity";
        operator.invalid(detail, causes);
        return;
    }
    match operator.text() {
        "In" | "NotIn" if values.count() == 0 => {
            let detail =
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            values.required(detail, causes);
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" => {
            if values.count() > 0 {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                values.invalid(detail, causes);
            }
        }
        _ => operator.invalid("not a valid selector operator", causes),
    }
}

pub(super) fn limit_range(value: &Value, causes: &mut Vec<Cause>) {
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    for limit in Field::new(&value["spec"], "spec").items("limits") {
        let kind = limit.field("type");
        let problems = names::qualified_name(kind.text());
        let known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if problems.is_empty() && !kind.text().contains('/') && !known {
            kind.invalid("must be a standard limit type or fully qualified", causes);
        }
        kind.problems(problems, causes);
        if !kinds.insert(kind.text()) {
            kind.duplicate(causes);
        }
        self::limit(&limit, causes);
    }
}

fn limit(limit: &Field<'_>, causes: &mut Vec<Cause>) {
    let kind = limit.field("type").text();
    let mut lists = vec!["max", "min"];
    if kind == "Pod" {
        for list in ["default", "defaultRequest"] {
            let list = limit.field(list);
            if list.is_set() {
                list.forbidden("may not be specified when `type` is 'Pod'", causes);
            }
        }
    } else {
        lists.extend(["default", "defaultRequest"]);
    }
    lists.push("maxLimitRequestRatio");
    let storage = |list: &str| limit.field(list).field("storage").is_set();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        limit.field("limits").required(detail, causes);
    }
    let mut names: Vec<&str> = Vec::new();
    for list in &lists {
        for (name, amount) in limit.entries(list) {
            if kind == "PersistentVolumeClaim" {
                for problem in names::qualified_name(name) {
                    causes.push(Cause::invalid(&amount.path, &json!(name), &problem));
                }
            } else {
                resources::name(name, &amount.path, causes);
            }
            names.push(name);
        }
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        order(limit, name, causes);
    }
}

/// Checks the order of the amounts of one resource: minimum, default request, default, maximum.
fn order(limit: &Field<'_>, name: &str, causes: &mut Vec<Cause>) {
    let at = |list: &str| {
        let list = limit.field(list);
        Field::new(&list.value[name], format!("{}[{name}]", list.path))
    };
    let [min, max, request, default, ratio] = [
        "min",
        "max",
        "defaultRequest",
        "default",
        "maxLimitRequestRatio",
    ]
    .map(at);
    let check = |field: &Field<'_>,
                 low: &Field<'_>,
                 high: &Field<'_>,
                 names: [&str; 2],
                 causes: &mut Vec<Cause>| {
        if let (Some(low), Some(high)) = (low.quantity(), high.quantity())
            && low > high
        {
            let detail = format!("{} {low} is greater than {} {high}", names[0], names[1]);
            field.invalid(&detail, causes);
        }
    };
    check(&min, &min, &max, ["min value", "max value"], causes);
    check(
        &request,
        &min,
        &request,
        ["min value", "default request value"],
        causes,
    );
    check(
        &request,
        &request,
        &max,
        ["default request value", "max value"],
        causes,
    );
    check(
        &request,
        &request,
        &default,
        ["default request value", "default limit value"],
        causes,
    );
    // Kubernetes reports these two at the default.
    let (low, high) = (
        Field::new(min.value, default.path.as_str()),
        Field::new(max.value, default.path.as_str()),
    );
    check(&low, &min, &default, ["min value", "default value"], causes);
    check(
        &high,
        &default,
        &max,
        ["default value", "max value"],
        causes,
    );
    let Some(most) = ratio.quantity() else { return };
    if most < Quantity::from_integer(1) {
        ratio.invalid(&format!("ratio {most} is less than 1"), causes);
    }
    if let (Some(min), Some(max)) = (min.quantity(), max.quantity())
        && !min.is_zero()
    {
        let between = max.ratio(min);
        if most.ratio(Quantity::from_integer(1)) > between {
            let detail = format!("ratio {most} is greater than max/min = {between:.6}");
            ratio.invalid(&detail, causes);
        }
    }
}
