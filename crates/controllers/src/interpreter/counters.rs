//! The counters in the status of workloads, by kind.

use serde_json::{Map, Value, json};

/// The counters of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    /// Those that are written only when they are not zero.
    pub(super) optional: &'static [&'static str],
    /// Those that are always written.
    pub(super) always: &'static [&'static str],
    /// Whether generations tell if the counters are up to date.
    pub(super) generations: bool,
}

impl Counters {
    /// The counters of a kind that has nothing but counters.
    pub(super) fn of(api_version: &str, kind: &str) -> Option<Self> {
        Some(match (api_version, kind) {
            ("apps/v1", "Deployment") => Self {
                optional: &[
                    "replicas",
                    "updatedReplicas",
                    "readyReplicas",
                    "availableReplicas",
                    "unavailableReplicas",
                ],
                always: &[],
                generations: true,
            },
            ("apps/v1", "ReplicaSet") => Self {
                optional: &["readyReplicas", "availableReplicas"],
                always: &["replicas"],
                generations: true,
            },
            ("apps/v1", "StatefulSet") => Self {
                optional: &["readyReplicas", "currentReplicas", "updatedReplicas"],
                always: &["replicas", "availableReplicas"],
                generations: true,
            },
            ("apps/v1", "DaemonSet") => Self {
                optional: &[
                    "updatedNumberScheduled",
                    "numberAvailable",
                    "numberUnavailable",
                ],
                always: &[
                    "currentNumberScheduled",
                    "numberMisscheduled",
                    "desiredNumberScheduled",
                    "numberReady",
                ],
                generations: true,
            },
            ("autoscaling/v2", "HorizontalPodAutoscaler") => Self {
                optional: &["currentReplicas"],
                always: &["desiredReplicas"],
                generations: false,
            },
            ("policy/v1", "PodDisruptionBudget") => Self {
                optional: &[],
                always: &[
                    "disruptionsAllowed",
                    "currentHealthy",
                    "desiredHealthy",
                    "expectedPods",
                ],
                generations: false,
            },
            _ => return None,
        })
    }

    /// Writes counters: `number` says what each of them is.
    pub(super) fn write(self, into: &mut Map<String, Value>, number: impl Fn(&str) -> i64) {
        for field in self.optional {
            put(into, field, number(field));
        }
        for field in self.always {
            into.insert((*field).to_owned(), json!(number(field)));
        }
    }
}

/// Writes a number, or takes it out where it is zero.
pub(super) fn put(into: &mut Map<String, Value>, field: &str, number: i64) {
    if number == 0 {
        into.remove(field);
    } else {
        into.insert(field.to_owned(), json!(number));
    }
}

/// Returns a counter that a member reports, within what a counter can be: a member may report anything.
pub(super) fn counter(object: &Value, field: &str) -> i64 {
    number(object, field).clamp(0, i64::from(i32::MAX))
}

/// A number of an object, 0 where it is missing.
pub(super) fn number(object: &Value, field: &str) -> i64 {
    object.get(field).and_then(Value::as_i64).unwrap_or(0)
}
