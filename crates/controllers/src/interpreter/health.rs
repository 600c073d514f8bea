//! Whether an object in a member is healthy.

use serde_json::{Value, json};

use super::counters::number;
use super::reflect::generation;
use super::revise::kind_of;

/// Whether there is a rule for the health of a kind.
pub fn has_health(group: &str, version: &str, kind: &str) -> bool {
    matches!(
        (group, version, kind),
        (
            "apps",
            "v1",
            "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet"
        ) | ("", "v1", "Service" | "PersistentVolumeClaim" | "Pod")
            | ("networking.k8s.io", "v1", "Ingress")
            | ("policy", "v1", "PodDisruptionBudget")
    )
}

/// Whether an object is healthy. Kinds without a rule always are.
pub fn is_healthy(object: &Value) -> bool {
    let (api_version, kind) = kind_of(object);
    let status = object.get("status").unwrap_or(&Value::Null);
    let up_to_date = || number(status, "observedGeneration") == generation(object);
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    let at_least = |field: &str, wanted: i64| number(status, field) >= wanted;
    match (api_version, kind) {
        ("apps/v1", "Deployment" | "StatefulSet") => {
            up_to_date()
                && replicas.is_none_or(|wanted| at_least("updatedReplicas", wanted))
                && at_least("availableReplicas", number(status, "updatedReplicas"))
        }
        ("apps/v1", "ReplicaSet") => {
            up_to_date() && replicas.is_none_or(|wanted| at_least("availableReplicas", wanted))
        }
        ("apps/v1", "DaemonSet") => {
            let updated = number(status, "updatedNumberScheduled");
            up_to_date()
                && updated >= number(status, "desiredNumberScheduled")
                && at_least("numberAvailable", updated)
        }
        ("v1", "Service") => {
            object.pointer("/spec/type") != Some(&json!("LoadBalancer")) || has_address(status)
        }
        ("networking.k8s.io/v1", "Ingress") => has_address(status),
        ("v1", "PersistentVolumeClaim") => status.get("phase") == Some(&json!("Bound")),
        ("v1", "Pod") => match status.get("phase").and_then(Value::as_str) {
            Some("Succeeded") => true,
            Some("Running") => is_ready(status),
            _ => false,
        },
        ("policy/v1", "PodDisruptionBudget") => {
            at_least("currentHealthy", number(status, "desiredHealthy"))
        }
        _ => true,
    }
}

fn has_address(status: &Value) -> bool {
    let ingress = status.pointer("/loadBalancer/ingress");
    let given = |entry: &Value, field: &str| {
        let text = entry.get(field).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    ingress
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|entry| given(entry, "hostname") || given(entry, "ip"))
}

fn is_ready(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type") == Some(&json!("Ready"))
            && condition.get("status") == Some(&json!("True"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_by_kind() {
        for (api_version, kind, spec, status, expected) in [
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2}),
                json!({"observedGeneration": 3, "updatedReplicas": 2, "availableReplicas": 2}),
                true,
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2}),
                json!({"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2}),
                false,
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({"replicas": 2}),
                json!({"observedGeneration": 3, "updatedReplicas": 2, "availableReplicas": 1}),
                false,
            ),
            (
                "apps/v1",
                "ReplicaSet",
                json!({"replicas": 2}),
                json!({"observedGeneration": 3}),
                false,
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 3, "desiredNumberScheduled": 1}),
                false,
            ),
            (
                "v1",
                "Service",
                json!({"type": "ClusterIP"}),
                json!({}),
                true,
            ),
            (
                "v1",
                "Service",
                json!({"type": "LoadBalancer"}),
                json!({}),
                false,
            ),
            (
                "v1",
                "Service",
                json!({"type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [{"ip": "1"}]}}),
                true,
            ),
            (
                "networking.k8s.io/v1",
                "Ingress",
                json!({}),
                json!({}),
                false,
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({}),
                json!({"phase": "Bound"}),
                true,
            ),
            ("v1", "Pod", json!({}), json!({"phase": "Running"}), false),
            (
                "v1",
                "Pod",
                json!({}),
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                true,
            ),
            (
                "policy/v1",
                "PodDisruptionBudget",
                json!({}),
                json!({"desiredHealthy": 1}),
                false,
            ),
            ("batch/v1", "Job", json!({}), json!({"failed": 1}), true),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"generation": 3}, "spec": spec, "status": status});
            assert_eq!(is_healthy(&object), expected, "{object}");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            assert_eq!(has_health(group, version, kind), kind != "Job", "{kind}");
        }
    }
}
