//! The table of the kinds with counters in their status, such as `readyReplicas`. The counters are summed over the
//! members.

use berth_apimachinery::json_fields::number;
use serde_json::{Map, Value, json};

/// The counters of a kind.
#[derive(Debug)]
pub(super) struct Counters {
    api_version: &'static str,
    kind: &'static str,
    /// True if the status has an observed generation, which shows whether the counters are up to date.
    pub(super) has_generation: bool,
    /// Counters that are always written.
    always: &'static [&'static str],
    /// Counters that are written if they are greater than zero.
    optional: &'static [&'static str],
}

#[rustfmt::skip]
static COUNTERS: [Counters; 6] = [
    Counters { api_version: "apps/v1", kind: "Deployment", has_generation: true,
        always: &[],
        optional: &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"] },
    Counters { api_version: "apps/v1", kind: "ReplicaSet", has_generation: true,
        always: &["replicas"],
        optional: &["readyReplicas", "availableReplicas"] },
    Counters { api_version: "apps/v1", kind: "StatefulSet", has_generation: true,
        always: &["replicas", "availableReplicas"],
        optional: &["readyReplicas", "currentReplicas", "updatedReplicas"] },
    Counters { api_version: "apps/v1", kind: "DaemonSet", has_generation: true,
        always: &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"],
        optional: &["updatedNumberScheduled", "numberAvailable", "numberUnavailable"] },
    Counters { api_version: "autoscaling/v2", kind: "HorizontalPodAutoscaler", has_generation: false,
        always: &["desiredReplicas"],
        optional: &["currentReplicas"] },
    Counters { api_version: "policy/v1", kind: "PodDisruptionBudget", has_generation: false,
        always: &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
        optional: &[] },
];

impl Counters {
    /// Returns the counters of a kind.
    pub(super) fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        let mut rows = COUNTERS.iter();
        rows.find(|row| (row.api_version, row.kind) == (api_version, kind))
    }

    /// Writes each counter with the value that `number` returns.
    pub(super) fn write(&self, into: &mut Map<String, Value>, number: impl Fn(&str) -> i64) {
        for field in self.optional {
            put(into, field, number(field));
        }
        for field in self.always {
            into.insert((*field).to_owned(), json!(number(field)));
        }
    }
}

/// Writes a number, or removes the field if the number is zero.
pub(super) fn put(into: &mut Map<String, Value>, field: &str, number: i64) {
    if number == 0 {
        into.remove(field);
    } else {
        into.insert(field.to_owned(), json!(number));
    }
}

/// Returns a counter from a member's report, clamped to the range of the API. A member may report any number.
pub(super) fn counter(object: &Value, field: &str) -> i64 {
    number(object, field).clamp(0, i64::from(i32::MAX))
}
