//! Validation of horizontal pod autoscalers.

use super::checks::positive;
use super::field::Field;
use super::rules::Check::{
    Between, By, ExactlyOneOf, IfSet, NotNegativeAmount, OneOf, PositiveAmount, Required,
    RequiredText,
};
use super::rules::{Rule, apply};
use crate::text_rules;

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

const REFERENCE: &[Rule] = &[("kind name", RequiredText(text_rules::path_segment))];

const BEHAVIOR: &[Rule] = &[
    ("stabilizationWindowSeconds", Between(0, 3600)),
    ("selectPolicy", OneOf(&["Disabled", "Max", "Min"])),
    ("policies", IfSet(&[("", Required)])),
    ("policies[].type", ExactlyOneOf(&["Percent", "Pods"])),
    ("policies[].value policies[].periodSeconds", By(positive)),
    ("policies[].periodSeconds", Between(i64::MIN, 1800)),
    ("tolerance", NotNegativeAmount),
];

/// Types of metrics, each with the field that describes the metric and the rules of this field.
const SOURCES: [(&str, &str, &[Rule]); 5] = [
    (
        "Object",
        "object",
        &[
            ("describedObject", By(|object| apply(REFERENCE, object))),
            ("metric.name", RequiredText(text_rules::path_segment)),
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

const METRIC: &[Rule] = &[("metric.name", RequiredText(text_rules::path_segment))];

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
}

fn target_version(version: &Field<'_>) {
    if version.text() != "v1" && version.text().split('/').count() != 2 {
        version.invalid("must be an API group and a version");
    }
}

fn metric(metric: &Field<'_>) {
    let kind = metric.get("type");
    Required.apply(&kind);
    let source = SOURCES.iter().find(|(name, ..)| *name == kind.text());
    let Some((_, field, rules)) = source else {
        return kind.not_supported(&SOURCES.map(|(name, ..)| name));
    };
    for (_, other, _) in SOURCES.iter().filter(|(_, other, _)| other != field) {
        let other = metric.get(other);
        if other.is_set() {
            other.forbidden("is of another type of metric");
        }
    }
    let source = metric.get(field);
    if !source.is_set() {
        return source.required("must describe the metric");
    }
    apply(rules, &source);
    apply(TARGET, &source.get("target"));
    target(kind.text(), &source.get("target"));
}

fn target_type(kind: &Field<'_>) {
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid("must be either Utilization, Value, or AverageValue");
    }
}

/// Checks that a target sets the amounts that its type of metric requires.
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
