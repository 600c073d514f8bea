//! Validation of nodes, namespaces, storage classes, priority classes, leases and disruption budgets.

use serde_json::json;

use super::checks::{at_most_all, count_or_percent, qualified, selector};
use super::field::Field;
use super::metadata::standard_or_qualified;
use super::network::cidr;
use super::placement::EFFECTS;
use super::rules::Check::{
    Between, By, EmptyOrOneOf, NotNegative, NotNegativeAmount, OneOf, RequiredOneOf, Text,
};
use super::rules::{Rule, apply};
use crate::error::Cause;
use crate::names;

pub(super) const STORAGE_CLASS: &[Rule] = &[
    ("provisioner", By(provisioner)),
    ("parameters", By(parameters)),
    ("reclaimPolicy", EmptyOrOneOf(&["Delete", "Retain"])),
    (
        "volumeBindingMode",
        OneOf(&["Immediate", "WaitForFirstConsumer"]),
    ),
];

pub(super) const LEASE: &[Rule] = &[
    ("spec.leaseDurationSeconds", Between(1, i64::MAX)),
    ("spec.leaseTransitions", NotNegative),
];

pub(super) const DISRUPTION_BUDGET: &[Rule] = &[
    ("spec", By(one_limit)),
    (
        "spec.minAvailable spec.maxUnavailable",
        By(count_or_percent),
    ),
    ("spec.minAvailable spec.maxUnavailable", By(at_most_all)),
    ("spec.selector", By(selector)),
    (
        "spec.unhealthyPodEvictionPolicy",
        OneOf(&["AlwaysAllow", "IfHealthyBudget"]),
    ),
];

pub(super) const PRIORITY_CLASS: &[Rule] = &[
    ("", By(priority)),
    ("value", By(priority_stays)),
    (
        "preemptionPolicy",
        OneOf(&["PreemptLowerPriority", "Never"]),
    ),
];

/// Checks the finalizers of a namespace, which are all reported for the list unless `indexed`.
pub(super) fn finalizers(namespace: &Field<'_>, indexed: bool) {
    let all = namespace.get("spec.finalizers");
    for finalizer in all.each() {
        let path = if indexed { &finalizer.path } else { &all.path }.clone();
        let finalizer = finalizer.reported_at(path);
        qualified(&finalizer);
        standard_or_qualified(&finalizer);
    }
}

/// Checks a node.
pub(super) fn node(node: &Field<'_>) {
    const TAINT: &[Rule] = &[
        ("key", By(qualified)),
        ("value", Text(names::label_value)),
        ("effect", RequiredOneOf(EFFECTS)),
    ];
    // Kubernetes reports taints below `metadata`.
    let mut taken = Vec::new();
    for taint in node
        .get("spec.taints")
        .reported_at("metadata.taints")
        .each()
    {
        apply(TAINT, &taint);
        let pair = (taint.text_of("key"), taint.text_of("effect"));
        if taken.contains(&pair) {
            taint.duplicate();
        }
        taken.push(pair);
    }
    let ranges = node.get("spec.podCIDRs");
    let valid = ranges.each().filter(|range| cidr(range).is_some());
    let (six, four): (Vec<_>, Vec<_>) = valid.partition(|range| range.text().contains(':'));
    if six.len() > 1 || four.len() > 1 {
        ranges.invalid("may specify no more than one CIDR for each IP family");
    }
    for list in ["status.capacity", "status.allocatable"] {
        for (name, amount) in node.entries(list) {
            NotNegativeAmount.apply(&amount.reported_at(format!("{list}.{name}")));
        }
    }
}

fn provisioner(provisioner: &Field<'_>) {
    if provisioner.is_empty() {
        return provisioner.required("");
    }
    qualified(&provisioner.with(&json!(provisioner.text().to_lowercase())));
}

fn parameters(parameters: &Field<'_>) {
    if parameters.value.get("").is_some() {
        parameters.invalid("keys can not be empty");
    }
}

fn one_limit(spec: &Field<'_>) {
    if spec.get("minAvailable").is_set() && spec.get("maxUnavailable").is_set() {
        spec.invalid("minAvailable and maxUnavailable cannot be both set");
    }
}

fn priority(class: &Field<'_>) {
    /// Maximum priority of a class that users create.
    const HIGHEST: i64 = 1_000_000_000;
    /// The classes of the system.
    const SYSTEM: [(&str, i64); 2] = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let name = class.text_of("metadata.name");
    let number = class.get("value").number().unwrap_or(0);
    if SYSTEM.contains(&(name, number)) {
    } else if name.starts_with("system-") {
        let detail = "the prefix 'system-' is reserved for system use";
        class.report(Cause::forbidden("metadata.name", detail));
    } else if number > HIGHEST {
        let detail = format!("the maximum priority of a class is {HIGHEST}");
        class.report(Cause::forbidden("value", &detail));
    }
}

fn priority_stays(value: &Field<'_>) {
    if value.old.is_some_and(|old| old != value.value) {
        value.forbidden("may not be changed");
    }
}
