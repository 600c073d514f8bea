//! Validation of the status of built-in kinds: counts are not negative, and no part exceeds the whole.

use super::field::Field;
use super::rules::Check::NotNegative;
use super::rules::{Rule, apply};
use crate::resource::Resource;

/// The counts in the status of each kind.
fn counts(resource: &Resource) -> &'static [Rule] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[(
            "observedGeneration conditions[].observedGeneration",
            NotNegative,
        )],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &[(
            "replicas fullyLabeledReplicas readyReplicas availableReplicas terminatingReplicas observedGeneration",
            NotNegative,
        )],
        ("apps", "deployments") => &[
            (
                "replicas updatedReplicas readyReplicas availableReplicas",
                NotNegative,
            ),
            (
                "unavailableReplicas terminatingReplicas observedGeneration collisionCount",
                NotNegative,
            ),
        ],
        ("apps", "statefulsets") => &[
            (
                "replicas updatedReplicas readyReplicas availableReplicas",
                NotNegative,
            ),
            (
                "currentReplicas observedGeneration collisionCount",
                NotNegative,
            ),
        ],
        ("apps", "daemonsets") => &[
            (
                "currentNumberScheduled desiredNumberScheduled updatedNumberScheduled numberMisscheduled",
                NotNegative,
            ),
            (
                "numberReady numberAvailable numberUnavailable observedGeneration collisionCount",
                NotNegative,
            ),
        ],
        ("batch", "jobs") => &[("active succeeded failed ready terminating", NotNegative)],
        ("policy", "poddisruptionbudgets") => &[(
            "disruptionsAllowed currentHealthy desiredHealthy expectedPods",
            NotNegative,
        )],
        ("autoscaling", "horizontalpodautoscalers") => {
            &[("currentReplicas desiredReplicas", NotNegative)]
        }
        _ => &[],
    }
}

/// Counts of replicas that cannot exceed others.
const AT_MOST: [(&str, &str); 6] = [
    ("fullyLabeledReplicas", "replicas"),
    ("readyReplicas", "replicas"),
    ("currentReplicas", "replicas"),
    ("updatedReplicas", "replicas"),
    ("availableReplicas", "replicas"),
    ("availableReplicas", "readyReplicas"),
];

/// Checks the status of an existing object.
pub(super) fn status(resource: &Resource, object: &Field<'_>) {
    let status = object.get("status");
    apply(counts(resource), &status);
    let number = |name: &str| status.get(name).number().unwrap_or(0);
    let is_workload = resource.group == "apps" && resource.plural != "daemonsets";
    if is_workload || resource.is("", "replicationcontrollers") {
        for (part, total) in AT_MOST {
            if number(part) > number(total) {
                status
                    .get(part)
                    .invalid(&format!("cannot be greater than {total}"));
            }
        }
    }
    // The count makes revision names unique, so it never decreases.
    let count = status.get("collisionCount");
    let before = count.old.and_then(serde_json::Value::as_i64).unwrap_or(0);
    if resource.group == "apps" && number("collisionCount") < before {
        count.invalid("cannot be decremented");
    }
}
