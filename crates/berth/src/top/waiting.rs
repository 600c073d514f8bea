//! The waiting bindings of `berth top`: the scheduler has failed to place them, or has not processed them yet.

use berth_api::{Binding, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::clusters::list::age;
use crate::columns::{align, cell};

/// A waiting binding: its condition `Scheduled` is missing or not true.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingBinding {
    /// Namespace of the resource. Empty for cluster-scoped resources.
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    kind: String,
    /// Name of the resource, which differs from the name of the binding.
    name: String,
    replicas: i32,
    /// Resource requests of one replica, for example `cpu=500m,memory=1Gi`.
    requests: String,
    /// Last transition time of the condition `Scheduled`, or the creation time of a binding without this condition.
    since: Option<Timestamp>,
    priority: i32,
    message: String,
}

impl WaitingBinding {
    /// Returns the binding if it is waiting. Returns `None` if the binding is scheduled, suspended or being deleted.
    fn new(binding: &Binding) -> Option<Self> {
        let spec = &binding.spec;
        if binding.deleting() || spec.scheduling_suspended() {
            return None;
        }
        let (since, message) = match condition::scheduled(&binding.status.conditions) {
            Some(condition) if condition.status == "True" => return None,
            Some(condition) => (
                Some(&condition.last_transition_time),
                condition.message.clone(),
            ),
            None => (
                binding.metadata.creation_timestamp.as_ref(),
                format!(
                    "the scheduler {} has not processed the binding yet",
                    spec.scheduler()
                ),
            ),
        };
        let requirements = spec.replica_requirements.as_ref();
        let requests = requirements.into_iter().flat_map(|it| &it.resource_request);
        let requests: Vec<String> = requests
            .map(|(name, amount)| format!("{name}={}", amount.0))
            .collect();
        Some(Self {
            namespace: spec.resource.namespace.clone().unwrap_or_default(),
            kind: spec.resource.kind.clone(),
            name: spec.resource.name.clone(),
            replicas: spec.replicas,
            requests: requests.join(","),
            since: since.map(|Time(since)| *since),
            priority: spec.priority(),
            message,
        })
    }
}

/// Returns the waiting bindings, sorted by descending priority, then by descending waiting time.
pub(super) fn waiting_bindings(bindings: &[Binding]) -> Vec<WaitingBinding> {
    let waiting = bindings.iter().filter_map(WaitingBinding::new);
    let mut waiting: Vec<WaitingBinding> = waiting.collect();
    waiting.sort_by(|a, b| {
        let by_priority = b.priority.cmp(&a.priority);
        by_priority
            .then_with(|| a.since.cmp(&b.since))
            .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    });
    waiting
}

const COLUMNS: [&str; 7] = [
    "WAITING", "KIND", "REPLICAS", "REQUESTS", "PRIORITY", "AGE", "REASON",
];

/// Formats waiting bindings as a table. The last column shows the complete message.
pub(super) fn table(waiting: &[WaitingBinding], now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = waiting.iter().map(|binding| row(binding, now)).collect();
    align(&COLUMNS, &rows)
}

fn row(binding: &WaitingBinding, now: Timestamp) -> Vec<String> {
    let name = match binding.namespace.as_str() {
        "" => binding.name.clone(),
        namespace => format!("{namespace}/{}", binding.name),
    };
    let requests = Some(&binding.requests).filter(|text| !text.is_empty());
    vec![
        name,
        binding.kind.clone(),
        binding.replicas.to_string(),
        cell(requests),
        binding.priority.to_string(),
        cell(
            binding
                .since
                .map(|since| age(now.duration_since(since).as_secs())),
        ),
        binding.message.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(name: &str, spec: &Value, conditions: &Value) -> Binding {
        let mut binding: Value = json!({
            "metadata": { "name": format!("{name}-deployment"), "namespace": "default",
                          "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
                                    "namespace": "default", "name": name },
                      "replicas": 2, "clusters": [] },
            "status": { "conditions": conditions },
        });
        for (field, value) in spec.as_object().unwrap() {
            binding["spec"][field] = value.clone();
        }
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        binding.into()
    }

    fn scheduled(status: &str, time: &str) -> Value {
        json!([{ "type": "Scheduled", "status": status, "reason": "NoClusterFit",
                 "message": "0/3 clusters are available", "lastTransitionTime": time }])
    }

    #[test]
    fn waiting_bindings_are_sorted_by_priority_and_waiting_time() {
        let none = json!({});
        let high = json!({ "schedulePriority": { "priority": 7 },
                           "replicaRequirements": { "resourceRequest": { "cpu": "500m" } } });
        let suspended = json!({ "suspension": { "scheduling": true } });
        let failed = scheduled("False", "2026-01-01T00:01:00Z");
        let bindings = [
            binding("placed", &none, &scheduled("True", "2026-01-01T00:01:00Z")),
            binding("suspended", &suspended, &failed),
            binding("late", &none, &failed),
            binding("new", &none, &json!([])),
            binding("high", &high, &failed),
        ];
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let rows: Vec<_> = waiting_bindings(&bindings)
            .iter()
            .map(|binding| row(binding, now))
            .collect();
        assert_eq!(
            rows,
            [
                [
                    "default/high",
                    "Deployment",
                    "2",
                    "cpu=500m",
                    "7",
                    "2m",
                    "0/3 clusters are available"
                ],
                [
                    "default/new",
                    "Deployment",
                    "2",
                    "-",
                    "0",
                    "3m",
                    "the scheduler default-scheduler has not processed the binding yet"
                ],
                [
                    "default/late",
                    "Deployment",
                    "2",
                    "-",
                    "0",
                    "2m",
                    "0/3 clusters are available"
                ],
            ]
        );
    }
}
