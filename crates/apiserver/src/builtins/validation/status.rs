//! Validation of the status of built-in kinds: numbers are not negative, and no replica count exceeds its total.

use super::field::Field;
use super::rules::Check::NotNegative;
use crate::resource::Resource;

/// Pairs of replica counts in a status. The first count must not exceed the second count.
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
    for name in status
        .value
        .as_object()
        .into_iter()
        .flat_map(|all| all.keys())
    {
        NotNegative.apply(&status.get(name));
    }
    let number = |name: &str| status.get(name).number().unwrap_or(0);
    let is_workload = resource.group == "apps" && resource.plural != "daemonsets";
    if is_workload || resource.is("", "replicationcontrollers") {
        for (part, total) in AT_MOST {
            if number(part) > number(total) {
                let detail = format!("cannot be greater than {total}");
                status.get(part).invalid(&detail);
            }
        }
    }
}
