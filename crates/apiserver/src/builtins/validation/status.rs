//! Validation of the status of workloads: counts are not negative, and no part exceeds the whole.

use serde_json::Value;

use super::field::Field;
use crate::error::Cause;
use crate::resource::Resource;

/// The numbers in the status of a kind.
struct Counts {
    /// Fields that are not negative.
    not_negative: &'static [&'static str],
    /// Fields that cannot exceed another field, with the name of that field in messages.
    at_most: &'static [(&'static str, &'static str, &'static str)],
}

/// The name of the replicas in messages.
const ALL: &str = "status.replicas";

const REPLICAS: Counts = Counts {
    not_negative: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ],
    at_most: &[
        ("fullyLabeledReplicas", "replicas", ALL),
        ("readyReplicas", "replicas", ALL),
        ("availableReplicas", "replicas", ALL),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ],
};

const DEPLOYMENT: Counts = Counts {
    not_negative: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    at_most: &[
        ("updatedReplicas", "replicas", ALL),
        ("readyReplicas", "replicas", ALL),
        ("availableReplicas", "replicas", ALL),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ],
};

const STATEFUL_SET: Counts = Counts {
    not_negative: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    at_most: &[
        ("readyReplicas", "replicas", ALL),
        ("currentReplicas", "replicas", ALL),
        ("updatedReplicas", "replicas", ALL),
        ("availableReplicas", "replicas", ALL),
        ("availableReplicas", "readyReplicas", "status.readyReplicas"),
    ],
};

const DAEMON_SET: Counts = Counts {
    not_negative: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    at_most: &[],
};

const JOB: Counts = Counts {
    not_negative: &["active", "succeeded", "failed", "ready", "terminating"],
    at_most: &[],
};

const BUDGET: Counts = Counts {
    not_negative: &[
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ],
    at_most: &[],
};

const AUTOSCALER: Counts = Counts {
    not_negative: &["currentReplicas", "desiredReplicas"],
    at_most: &[],
};

fn counts(resource: &Resource) -> Option<&'static Counts> {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "replicationcontrollers") | ("apps", "replicasets") => Some(&REPLICAS),
        ("apps", "deployments") => Some(&DEPLOYMENT),
        ("apps", "statefulsets") => Some(&STATEFUL_SET),
        ("apps", "daemonsets") => Some(&DAEMON_SET),
        ("batch", "jobs") => Some(&JOB),
        ("policy", "poddisruptionbudgets") => Some(&BUDGET),
        ("autoscaling", "horizontalpodautoscalers") => Some(&AUTOSCALER),
        _ => None,
    }
}

/// Checks the status of an existing object.
pub(super) fn status(
    resource: &Resource,
    value: &Value,
    old: Option<&Value>,
    causes: &mut Vec<Cause>,
) {
    let Some(counts) = counts(resource) else {
        return;
    };
    let status = Field::new(&value["status"], "status");
    for name in counts.not_negative {
        status.field(name).not_negative(causes);
    }
    let number = |name: &str| status.field(name).number().unwrap_or(0);
    for (part, total, named) in counts.at_most {
        if number(part) > number(total) {
            let detail = format!("cannot be greater than {named}");
            status.field(part).invalid(&detail, causes);
        }
    }
    // The count makes revision names unique, so it never decreases.
    let before = old.map_or(0, |old| {
        old["status"]["collisionCount"].as_i64().unwrap_or(0)
    });
    if number("collisionCount") < before {
        let detail = "cannot be decremented";
        status.field("collisionCount").invalid(detail, causes);
    }
}
