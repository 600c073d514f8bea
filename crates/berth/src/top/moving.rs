//! The moving bindings of `berth top`: old copies wait, or an eviction is unfinished.

use berth_api::Binding;
use berth_diagnosis::{Migration, WorkloadRow};
use jiff::Timestamp;
use serde::Serialize;

use super::Diagnoses;
use crate::columns::{align, plain};
use crate::workloads::table::age_since;

/// A moving binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MovingBinding {
    workload: WorkloadRow,
    /// Start of the migration, or creation time of the first eviction task.
    since: Option<Timestamp>,
    /// Reason of the condition `Migrating`, or of the first eviction task.
    reason: String,
    message: String,
}

impl MovingBinding {
    /// Returns the binding if it is moving.
    fn new(binding: &Binding, diagnoses: &Diagnoses<'_>) -> Option<Self> {
        let migration = Migration::of(binding)?;
        migration.state()?;
        Some(Self {
            workload: diagnoses.row(binding),
            since: migration.since().map(|since| since.0),
            reason: migration.reason().to_owned(),
            message: migration.message(),
        })
    }
}

/// Returns the moving bindings, sorted by descending time since the start of the move.
pub(super) fn moving_bindings(
    bindings: &[Binding],
    diagnoses: &Diagnoses<'_>,
) -> Vec<MovingBinding> {
    let moving = bindings.iter();
    let moving = moving.filter_map(|binding| MovingBinding::new(binding, diagnoses));
    let mut moving: Vec<MovingBinding> = moving.collect();
    let name = |binding: &MovingBinding| {
        let workload = &binding.workload;
        (workload.namespace.clone(), workload.name.clone())
    };
    moving.sort_by(|a, b| {
        let by_time = a.since.cmp(&b.since);
        by_time.then_with(|| name(a).cmp(&name(b)))
    });
    moving
}

const COLUMNS: [&str; 4] = ["MOVING", "AGE", "REASON", "MESSAGE"];

/// Formats moving bindings as a table. The last column shows the complete message.
pub(super) fn table(moving: &[MovingBinding], now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = moving.iter().map(|binding| row(binding, now)).collect();
    align(&COLUMNS, &rows)
}

fn row(binding: &MovingBinding, now: Timestamp) -> Vec<String> {
    vec![
        plain(&binding.workload.workload()),
        age_since(binding.since, now),
        plain(&binding.reason),
        plain(&binding.message),
    ]
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_diagnosis::ClusterStates;
    use serde_json::{Value, json};

    use super::*;

    fn binding(name: &str, spec: &Value, conditions: &Value) -> Binding {
        let mut binding = json!({
            "metadata": { "name": format!("{name}-deployment"), "namespace": "default",
                "annotations": { "migration.berth/evicted-from": "m1" } },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
                "name": name }, "replicas": 2, "placement": {}, "clusters": [] },
            "status": { "conditions": conditions },
        });
        for (field, value) in spec.as_object().unwrap() {
            binding["spec"][field] = value.clone();
        }
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        binding.into()
    }

    #[test]
    fn moving_bindings_are_sorted_by_their_start() {
        let migrating = json!([{ "type": "Migrating", "status": "True", "reason": "WaitingForReplicas",
            "message": "1 of 2 are ready", "lastTransitionTime": "2026-01-01T00:01:00Z" }]);
        let tasks = json!({ "gracefulEvictionTasks": [
            { "fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager",
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            { "fromCluster": "m2", "reason": "ApplicationFailure", "producer": "p" }] });
        let bindings = [
            binding("migrating", &json!({}), &migrating),
            binding("evicted", &tasks, &json!([])),
            binding("both", &tasks, &migrating),
            binding("rests", &json!({}), &json!([])),
        ];
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let moving = moving_bindings(&bindings, &Diagnoses::new(&ClusterStates::new(), now));
        let rows: Vec<_> = moving.iter().map(|binding| row(binding, now)).collect();
        assert_eq!(
            rows,
            [
                [
                    "default/Deployment evicted",
                    "3m",
                    "TaintUntolerated",
                    "leaves m1, m2"
                ],
                [
                    "default/Deployment both",
                    "2m",
                    "WaitingForReplicas",
                    "1 of 2 are ready"
                ],
                [
                    "default/Deployment migrating",
                    "2m",
                    "WaitingForReplicas",
                    "1 of 2 are ready"
                ],
            ]
        );
    }
}
