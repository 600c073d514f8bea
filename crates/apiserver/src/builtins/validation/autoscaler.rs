//! Validation of autoscalers.

use super::checks::positive;
use super::field::Field;
use super::rules::Check::{
    Between, By, ExactlyOneOf, IfSet, NotNegativeAmount, OneOf, PositiveAmount, Required,
    RequiredText,
};
use super::rules::{Rule, apply};
use crate::names;

pub(super) const AUTOSCALER: &[Rule] = &[
    ("spec.minReplicas", Between(1, i64::MAX)),
    ("spec", By(replicas)),
    ("spec.scaleTargetRef", By(|target| apply(REFERENCE, target))),
    ("spec.scaleTargetRef.apiVersion", By(target_version)),
    ("spec.metrics[]", By(metric)),
    (
        "spec.behavior.scaleUp spec.behavior.scaleDown",
        IfSet(BEHAVIOR),
    ),
];

const REFERENCE: &[Rule] = &[("kind name", RequiredText(names::path_segment))];

const BEHAVIOR: &[Rule] = &[
    ("stabilizationWindowSeconds", Between(0, 3600)),
    ("selectPolicy", OneOf(&["Disabled", "Max", "Min"])),
    ("policies", IfSet(&[("", Required)])),
    ("policies[].type", ExactlyOneOf(&["Percent", "Pods"])),
    ("policies[].value policies[].periodSeconds", By(positive)),
    ("policies[].periodSeconds", Between(i64::MIN, 1800)),
    ("tolerance", NotNegativeAmount),
];

/// Types of metrics, with the field that describes each and its rules.
const SOURCES: [(&str, &str, &[Rule]); 5] = [
    (
        "Object",
        "object",
        &[
            ("describedObject", By(|object| apply(REFERENCE, object))),
            ("metric.name", RequiredText(names::path_segment)),
        ],
    ),
    ("Pods", "pods", METRIC),
    ("Resource", "resource", &[("name", Required)]),
    (
        "ContainerResource",
        "containerResource",
        &[("container name", Required)],
    ),
    ("External", "external", METRIC),
];

const METRIC: &[Rule] = &[("metric.name", RequiredText(names::path_segment))];

const TARGET: &[Rule] = &[
    ("type", Required),
    ("type", By(target_type)),
    ("value averageValue", PositiveAmount),
    ("averageUtilization", Between(1, i64::MAX)),
];

fn replicas(spec: &Field<'_>) {
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    let (min, max) = (least.number().unwrap_or(1), most.number().unwrap_or(0));
    if max == 0 {
        most.required("must be set and greater than 0");
    }
    if max < min.max(0) {
        most.invalid("must be positive, and at least `minReplicas`");
    }
    let of_others = |metric: Field<'_>| matches!(metric.text_of("type"), "Object" | "External");
    if min == 0 && !spec.items("metrics").any(of_others) {
        let metrics = spec.get("metrics");
        metrics.forbidden("scaling to zero requires an Object or External metric");
    }
}

fn target_version(version: &Field<'_>) {
    if version.text() != "v1" && version.text().split('/').count() != 2 {
        version.invalid("must be an API group and a version");
    }
}

fn metric(metric: &Field<'_>) {
    let kind = metric.get("type");
    Required.apply(&kind);
    ExactlyOneOf(&[
        "ContainerResource",
        "External",
        "Object",
        "Pods",
        "Resource",
    ])
    .apply(&kind);
    if !SOURCES.iter().any(|(name, ..)| *name == kind.text()) {
        return;
    }
    for (name, field, rules) in SOURCES {
        let source = metric.get(field);
        match (name == kind.text(), source.is_set()) {
            (true, false) => source.required("must describe the metric"),
            (true, true) => {
                apply(rules, &source);
                apply(TARGET, &source.get("target"));
                target(name, &source.get("target"));
            }
            (false, true) => source.forbidden("is of another type of metric"),
            (false, false) => {}
        }
    }
}

fn target_type(kind: &Field<'_>) {
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid("must be either Utilization, Value, or AverageValue");
    }
}

/// Checks which amounts a target sets.
fn target(kind: &str, target: &Field<'_>) {
    let (value, average) = (target.get("value"), target.get("averageValue"));
    let share = target.get("averageUtilization");
    let is_resource = matches!(kind, "Resource" | "ContainerResource");
    match (average.is_set(), value.is_set(), share.is_set()) {
        (true, _, true) if is_resource => average.forbidden("excludes averageUtilization"),
        (false, _, false) if is_resource => share.required("or averageValue must be set"),
        (false, ..) if kind == "Pods" => average.required(""),
        (false, false, _) if !is_resource => average.required("or value must be set"),
        (true, true, _) if kind == "External" => value.forbidden("excludes averageValue"),
        _ => {}
    }
}
