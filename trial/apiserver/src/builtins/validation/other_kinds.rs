//! Validation of kinds without a module of their own: nodes, namespaces, storage classes, priority classes, leases and
//! disruption budgets.

use serde_json::json;

use super::checks::{at_most_all, count_or_percent, qualified, selector};
use super::field::Field;
use super::metadata::standard_or_qualified;
use super::network::cidr;
use super::pod_scheduling::EFFECTS;
use super::rules::Check::{
    Between, By, EmptyOrOneOf, NotNegative, NotNegativeAmount, OneOf, RequiredOneOf, Text,
};
use super::rules::{Rule, apply};
use crate::error::Cause;
use crate::text_rules;

pub(super) const NODE: &[Rule] = &[
    ("spec.taints", By(taints)),
    ("spec.podCIDRs[]", By(range)),
    ("status.capacity", By(amounts)),
    ("status.allocatable", By(amounts)),
];

pub(super) const STORAGE_CLASS: &[Rule] = &[
    ("provisioner", By(provisioner)),
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

/// Checks the finalizers of a namespace. Causes name the list of finalizers, or the single finalizer if `indexed` is
/// true.
pub(super) fn finalizers(namespace: &Field<'_>, indexed: bool) {
    let all = namespace.get("spec.finalizers");
    for finalizer in all.each() {
        let path = if indexed { &finalizer.path } else { &all.path }.clone();
        let finalizer = finalizer.reported_at(path);
        qualified(&finalizer);
        standard_or_qualified(&finalizer);
    }
}

fn taints(taints: &Field<'_>) {
    const TAINT: &[Rule] = &[
        ("key", By(qualified)),
        ("value", Text(text_rules::label_value)),
        ("effect", RequiredOneOf(EFFECTS)),
    ];
    let mut taken = Vec::new();
    // As in Kubernetes, causes have the path `metadata.taints`.
    for taint in taints.clone().reported_at("metadata.taints").each() {
        apply(TAINT, &taint);
        let pair = (taint.text_of("key"), taint.text_of("effect"));
        if taken.contains(&pair) {
            taint.duplicate();
        }
        taken.push(pair);
    }
}

/// Checks that the quantities of a list of resources are not negative.
pub(super) fn amounts(list: &Field<'_>) {
    for (name, amount) in list.value.as_object().into_iter().flatten() {
        let path = format!("{}.{name}", list.path);
        NotNegativeAmount.apply(&list.with(amount).reported_at(path));
    }
}

fn range(range: &Field<'_>) {
    cidr(range);
}

fn provisioner(provisioner: &Field<'_>) {
    if provisioner.is_empty() {
        return provisioner.required("");
    }
    qualified(&provisioner.with(&json!(provisioner.text().to_lowercase())));
}

fn one_limit(spec: &Field<'_>) {
    if spec.get("minAvailable").is_set() && spec.get("maxUnavailable").is_set() {
        spec.invalid("minAvailable and maxUnavailable cannot be both set");
    }
}

fn priority(class: &Field<'_>) {
    /// Maximum priority of a class that a user creates.
    const HIGHEST: i64 = 1_000_000_000;
    /// The priority classes of the system and their priorities.
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
