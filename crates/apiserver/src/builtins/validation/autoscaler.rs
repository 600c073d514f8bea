//! Validation of autoscalers.

use berth_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::field::Field;
use crate::error::Cause;
use crate::names;

/// Types of metrics, with the field that describes each.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];
const TYPES: &[&str] = &[
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];
/// The longest stabilization window and the longest period of a policy, in seconds.
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

pub(super) fn autoscaler(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let (min, max) = (least.number().unwrap_or(1), most.number().unwrap_or(0));
    if min < 1 {
        least.invalid("must be greater than or equal to 1", causes);
    }
    if max == 0 {
        most.required("must be set and greater than 0", causes);
    } else if max < 0 {
        most.invalid("must be greater than or equal to 1", causes);
    }
    if max < min {
        let detail = "must be greater than or equal to `minReplicas`";
        most.invalid(detail, causes);
    }
    target_reference(&spec.field("scaleTargetRef"), causes);
    let metrics = spec.field("metrics");
    for metric in spec.items("metrics") {
        self::metric(&metric, causes);
    }
    let of_others =
        |metric: Field<'_>| matches!(metric.field("type").text(), "Object" | "External");
    if min == 0 && !spec.items("metrics").any(of_others) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(detail, causes);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.field("behavior").field(direction);
        if rules.is_set() {
            behaviour(&rules, causes);
        }
    }
}

fn reference(reference: &Field<'_>, causes: &mut Vec<Cause>) {
    for field in ["kind", "name"] {
        reference.field(field).named(names::path_segment, causes);
    }
}

fn target_reference(target: &Field<'_>, causes: &mut Vec<Cause>) {
    reference(target, causes);
    let version = target.field("apiVersion");
    match version.text().split('/').count() {
        _ if version.text() == "v1" => {}
        1 => version.invalid("apiVersion must specify API group", causes),
        2 => {}
        _ => {
            let detail = format!("unexpected GroupVersion string: {}", version.text());
            version.invalid(&detail, causes);
        }
    }
}

fn metric(metric: &Field<'_>, causes: &mut Vec<Cause>) {
    let kind = metric.field("type");
    if kind.text().is_empty() {
        kind.required("must specify a metric source type", causes);
    }
    kind.exactly_one_of(TYPES, causes);
    let Some((_, field)) = SOURCES.iter().find(|(name, _)| *name == kind.text()) else {
        return;
    };
    let source = metric.field(field);
    if !source.is_set() {
        let detail = "must populate information for the given metric source";
        source.required(detail, causes);
    }
    for (_, other) in SOURCES.iter().filter(|(_, other)| other != field) {
        let other = metric.field(other);
        if other.is_set() {
            other.forbidden("must populate the given metric source only", causes);
        }
    }
    if source.is_set() {
        self::source(kind.text(), &source, causes);
    }
}

fn source(kind: &str, source: &Field<'_>, causes: &mut Vec<Cause>) {
    let target = source.field("target");
    match kind {
        "Resource" | "ContainerResource" => {
            if kind == "ContainerResource" && source.field("container").text().is_empty() {
                let container = source.field("container");
                container.required("must specify a container", causes);
            }
            let name = source.field("name");
            if name.text().is_empty() {
                name.required("must specify a resource name", causes);
            }
        }
        _ => {
            if kind == "Object" {
                reference(&source.field("describedObject"), causes);
            }
            let name = source.field("metric").field("name");
            if name.text().is_empty() {
                name.required("must specify a metric name", causes);
            } else {
                name.problems(names::path_segment(name.text()), causes);
            }
        }
    }
    self::target(kind, &target, causes);
}

fn target(kind: &str, target: &Field<'_>, causes: &mut Vec<Cause>) {
    let form = target.field("type");
    if form.text().is_empty() {
        form.required("must specify a metric target type", causes);
    }
    if !matches!(form.text(), "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        form.invalid(detail, causes);
    }
    let (value, average, share) = (
        target.field("value"),
        target.field("averageValue"),
        target.field("averageUtilization"),
    );
    for amount in [&value, &average] {
        if amount.quantity().is_some_and(|a| a <= Quantity::ZERO) {
            amount.invalid("must be positive", causes);
        }
    }
    if share.number().is_some_and(|share| share < 1) {
        share.invalid("must be greater than 0", causes);
    }
    let absent = !average.is_set();
    match kind {
        "Resource" | "ContainerResource" if share.is_set() && !absent => {
            let detail = "may not set both a target raw value and a target utilization";
            average.forbidden(detail, causes);
        }
        "Resource" | "ContainerResource" if !share.is_set() && absent => {
            let detail = "must set either a target raw value or a target utilization";
            share.required(detail, causes);
        }
        "Pods" if absent => {
            average.required("must specify a positive target averageValue", causes);
        }
        "Object" if absent && !value.is_set() => {
            let detail = "must set either a target value or averageValue";
            average.required(detail, causes);
        }
        "External" if absent && !value.is_set() => {
            let detail = "must set either a target value for metric or a per-pod target";
            average.required(detail, causes);
        }
        "External" if !absent && value.is_set() => {
            let detail = "may not set both a target value for metric and a per-pod target";
            value.forbidden(detail, causes);
        }
        _ => {}
    }
}

fn behaviour(rules: &Field<'_>, causes: &mut Vec<Cause>) {
    let window = rules.field("stabilizationWindowSeconds");
    match window.number() {
        Some(seconds) if seconds < 0 => {
            window.invalid("must be greater than or equal to zero", causes);
        }
        Some(seconds) if seconds > LONGEST_WINDOW => {
            let detail = format!("must be less than or equal to {LONGEST_WINDOW}");
            window.invalid(&detail, causes);
        }
        _ => {}
    }
    rules
        .field("selectPolicy")
        .one_of(&["Disabled", "Max", "Min"], causes);
    let policies = rules.field("policies");
    if policies.is_set() && policies.count() == 0 {
        policies.required("must specify at least one Policy", causes);
    }
    for policy in policies.each() {
        policy
            .field("type")
            .exactly_one_of(&["Percent", "Pods"], causes);
        let (value, period) = (policy.field("value"), policy.field("periodSeconds"));
        for number in [&value, &period] {
            let found = number.number().unwrap_or(0);
            if found <= 0 {
                number.invalid("must be greater than zero", causes);
            }
        }
        if period
            .number()
            .is_some_and(|seconds| seconds > LONGEST_PERIOD)
        {
            let detail = format!("must be less than or equal to {LONGEST_PERIOD}");
            period.invalid(&detail, causes);
        }
    }
    let tolerance = rules.field("tolerance");
    if tolerance.quantity().is_some_and(|t| t < Quantity::ZERO) {
        tolerance.invalid("must be greater than or equal to 0", causes);
    }
}
