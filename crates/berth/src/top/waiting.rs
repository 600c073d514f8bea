//! The waiting bindings of `berth top`: the scheduler has failed to place them, or has not processed them yet.

use berth_api::Binding;
use berth_diagnosis::{Finding, Reason, WorkloadRow};
use jiff::Timestamp;
use serde::Serialize;

use super::Diagnoses;
use crate::columns::{align, cell, plain};
use crate::workloads::table::age_since;

/// A waiting binding: the diagnosis finds that it has no decision, or that no cluster fits. It may still run where it was
/// placed before.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingBinding {
    workload: WorkloadRow,
    replicas: i32,
    /// Resource requests of one replica, for example `cpu=500m,memory=1Gi`.
    requests: String,
    /// Time since which the binding waits.
    since: Option<Timestamp>,
    priority: i32,
    message: String,
}

/// Reports whether a finding keeps a binding waiting for a decision.
fn waits(finding: &Finding) -> bool {
    matches!(
        finding.reason,
        Reason::Unschedulable | Reason::NotScheduledYet | Reason::SchedulerAbsent
    )
}

impl WaitingBinding {
    /// Returns the binding if it is waiting. Returns `None` if the binding is scheduled, suspended or being deleted.
    fn new(binding: &Binding, diagnoses: &Diagnoses<'_>) -> Option<Self> {
        if binding.deleting() {
            return None;
        }
        let findings = diagnoses.of(binding).findings;
        let finding = findings.into_iter().find(waits)?;
        let spec = &binding.spec;
        let requirements = spec.replica_requirements.as_ref();
        let requests = requirements.into_iter().flat_map(|it| &it.resource_request);
        let requests: Vec<String> = requests
            .map(|(name, amount)| format!("{name}={}", amount.0))
            .collect();
        Some(Self {
            workload: diagnoses.row(binding),
            replicas: spec.replicas,
            requests: requests.join(","),
            since: finding.since,
            priority: spec.priority(),
            message: finding.message,
        })
    }
}

/// Returns the waiting bindings, sorted by descending priority, then by descending waiting time.
pub(super) fn waiting_bindings(
    bindings: &[Binding],
    diagnoses: &Diagnoses<'_>,
) -> Vec<WaitingBinding> {
    let waiting = bindings.iter();
    let waiting = waiting.filter_map(|binding| WaitingBinding::new(binding, diagnoses));
    let mut waiting: Vec<WaitingBinding> = waiting.collect();
    let name = |binding: &WaitingBinding| {
        let workload = &binding.workload;
        (workload.namespace.clone(), workload.name.clone())
    };
    waiting.sort_by(|a, b| {
        let by_priority = b.priority.cmp(&a.priority);
        by_priority
            .then_with(|| a.since.cmp(&b.since))
            .then_with(|| name(a).cmp(&name(b)))
    });
    waiting
}

const COLUMNS: [&str; 6] = [
    "WAITING", "REPLICAS", "REQUESTS", "PRIORITY", "AGE", "REASON",
];

/// Formats waiting bindings as a table. The last column shows the complete message.
pub(super) fn table(waiting: &[WaitingBinding], now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = waiting.iter().map(|binding| row(binding, now)).collect();
    align(&COLUMNS, &rows)
}

fn row(binding: &WaitingBinding, now: Timestamp) -> Vec<String> {
    let requests = Some(&binding.requests).filter(|text| !text.is_empty());
    vec![
        plain(&binding.workload.workload()),
        binding.replicas.to_string(),
        cell(requests),
        binding.priority.to_string(),
        age_since(binding.since, now),
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
        let mut binding: Value = json!({
            "metadata": { "name": format!("{name}-deployment"), "namespace": "default",
                          "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
                                    "namespace": "default", "name": name },
                      "replicas": 2, "placement": {}, "clusters": [] },
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
            binding("dependency", &json!({ "placement": null }), &json!([])),
            binding("late", &none, &failed),
            binding("new", &none, &json!([])),
            binding("high", &high, &failed),
        ];
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let rows: Vec<_> = waiting_bindings(&bindings, &Diagnoses::new(&ClusterStates::new(), now))
            .iter()
            .map(|binding| row(binding, now))
            .collect();
        assert_eq!(
            rows,
            [
                [
                    "default/Deployment high",
                    "2",
                    "cpu=500m",
                    "7",
                    "2m",
                    "0/3 clusters are available"
                ],
                [
                    "default/Deployment new",
                    "2",
                    "-",
                    "0",
                    "3m",
                    "no scheduler named default-scheduler decides about it"
                ],
                [
                    "default/Deployment late",
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
