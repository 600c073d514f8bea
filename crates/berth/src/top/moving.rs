//! The moving bindings of `berth top`: old copies wait, or an eviction is unfinished.

use berth_api::Binding;
use berth_explain::Migration;
use jiff::Timestamp;
use serde::Serialize;

use crate::clusters::list::age;
use crate::columns::{align, cell};

/// A moving binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MovingBinding {
    /// Namespace of the resource. Empty for cluster-scoped resources.
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    kind: String,
    /// Name of the resource, which differs from the name of the binding.
    name: String,
    /// Start of the migration, or creation time of the first eviction task.
    since: Option<Timestamp>,
    /// Reason of the condition `Migrating`, or of the first eviction task.
    reason: String,
    message: String,
}

impl MovingBinding {
    /// Returns the binding if it is moving.
    fn new(binding: &Binding) -> Option<Self> {
        let migration = Migration::of(binding)?;
        migration.state()?;
        let resource = &binding.spec.resource;
        Some(Self {
            namespace: resource.namespace.clone().unwrap_or_default(),
            kind: resource.kind.clone(),
            name: resource.name.clone(),
            since: migration.since().map(|since| since.0),
            reason: migration.reason().to_owned(),
            message: migration.message(),
        })
    }
}

/// Returns the moving bindings, sorted by descending time since the start of the move.
pub(super) fn moving_bindings(bindings: &[Binding]) -> Vec<MovingBinding> {
    let mut moving: Vec<MovingBinding> = bindings.iter().filter_map(MovingBinding::new).collect();
    moving.sort_by(|a, b| {
        let by_time = a.since.cmp(&b.since);
        by_time.then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    });
    moving
}

const COLUMNS: [&str; 5] = ["MOVING", "KIND", "AGE", "REASON", "MESSAGE"];

/// Formats moving bindings as a table. The last column shows the complete message.
pub(super) fn table(moving: &[MovingBinding], now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = moving.iter().map(|binding| row(binding, now)).collect();
    align(&COLUMNS, &rows)
}

fn row(binding: &MovingBinding, now: Timestamp) -> Vec<String> {
    let name = match binding.namespace.as_str() {
        "" => binding.name.clone(),
        namespace => format!("{namespace}/{}", binding.name),
    };
    let since = binding.since;
    vec![
        name,
        binding.kind.clone(),
        cell(since.map(|since| age(now.duration_since(since).as_secs()))),
        binding.reason.clone(),
        binding.message.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(name: &str, spec: &Value, conditions: &Value) -> Binding {
        let mut binding = json!({
            "metadata": { "name": format!("{name}-deployment"), "namespace": "default",
                "annotations": { "migration.berth/evicted-from": "m1" } },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
                "name": name }, "replicas": 2, "clusters": [] },
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
        let moving = moving_bindings(&bindings);
        let rows: Vec<_> = moving.iter().map(|binding| row(binding, now)).collect();
        assert_eq!(
            rows,
            [
                [
                    "default/evicted",
                    "Deployment",
                    "3m",
                    "TaintUntolerated",
                    "leaves m1, m2"
                ],
                [
                    "default/both",
                    "Deployment",
                    "2m",
                    "WaitingForReplicas",
                    "1 of 2 are ready"
                ],
                [
                    "default/migrating",
                    "Deployment",
                    "2m",
                    "WaitingForReplicas",
                    "1 of 2 are ready"
                ],
            ]
        );
    }
}
