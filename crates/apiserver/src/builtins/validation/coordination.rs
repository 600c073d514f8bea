//! Validation of disruption budgets, leases and priority classes.

use serde_json::Value;

use super::field::Field;
use super::selector;
use crate::error::Cause;

pub(super) fn budget(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        spec.invalid(detail, causes);
    }
    for share in [least, most] {
        share.count_or_percent(causes);
        share.at_most_all(causes);
    }
    selector::labels(&spec.field("selector"), causes);
    let policy = spec.field("unhealthyPodEvictionPolicy");
    policy.one_of(&["AlwaysAllow", "IfHealthyBudget"], causes);
}

pub(super) fn lease(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let duration = spec.field("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        duration.invalid("must be greater than 0", causes);
    }
    spec.field("leaseTransitions").not_negative(causes);
}

pub(super) fn priority_class(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    /// Maximum priority of a class that users create.
    const HIGHEST: i64 = 1_000_000_000;
    /// The classes of the system.
    const SYSTEM: [(&str, i64); 2] = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let number = value["value"].as_i64().unwrap_or(0);
    if SYSTEM.contains(&(name, number)) {
    } else if name.starts_with("system-") {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        causes.push(Cause::forbidden("metadata.name", &detail));
    } else if number > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        causes.push(Cause::forbidden("value", &detail));
    }
    if old.is_some_and(|old| old["value"] != value["value"]) {
        let detail = "may not be changed in an update.";
        causes.push(Cause::forbidden("value", detail));
    }
    let policy = Field::new(&value["preemptionPolicy"], "preemptionPolicy");
    policy.one_of(&["PreemptLowerPriority", "Never"], causes);
}
