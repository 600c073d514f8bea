//! The checks of budgets for disruptions, leases, and classes of priority.

use serde_json::Value;

use super::place::{Place, go};
use super::selector;
use crate::error::Cause;

pub(super) fn budget(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Place::new(&value["spec"], "spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        let shown = go(&[
            ("MinAvailable", least.value),
            ("Selector", &spec.value["selector"]),
            ("MaxUnavailable", most.value),
            (
                "UnhealthyPodEvictionPolicy",
                &spec.value["unhealthyPodEvictionPolicy"],
            ),
        ]);
        let why = "minAvailable and maxUnavailable cannot be both set";
        spec.invalid_go(&shown, why, causes);
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
    let spec = Place::new(&value["spec"], "spec");
    let duration = spec.field("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        duration.invalid("must be greater than 0", causes);
    }
    spec.field("leaseTransitions").not_negative(causes);
}

pub(super) fn priority_class(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    /// Above are those of the system.
    const HIGHEST: i64 = 1_000_000_000;
    /// Classes that the system itself has.
    const SYSTEM: [(&str, i64); 2] = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let number = value["value"].as_i64().unwrap_or(0);
    if SYSTEM.contains(&(name, number)) {
    } else if name.starts_with("system-") {
        let why = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if number > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        causes.push(Cause::forbidden("value", &why));
    }
    if old.is_some_and(|old| old["value"] != value["value"]) {
        let why = "may not be changed in an update.";
        causes.push(Cause::forbidden("value", why));
    }
    let policy = Place::new(&value["preemptionPolicy"], "preemptionPolicy");
    policy.one_of(&["PreemptLowerPriority", "Never"], causes);
}
