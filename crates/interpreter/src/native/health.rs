//! Health of objects in a member.

use berth_apimachinery::json_fields::{generation, has_condition, kind_of, number};
use serde_json::{Value, json};

/// A health rule: a function of an object and its status, which returns true if the object is healthy.
type Rule = fn(&Value, &Value) -> bool;

const RULES: [(&str, &str, Rule); 9] = [
    ("apps/v1", "Deployment", is_rolled_out),
    ("apps/v1", "StatefulSet", is_rolled_out),
    ("apps/v1", "ReplicaSet", is_replica_set_available),
    ("apps/v1", "DaemonSet", is_daemon_set_available),
    ("v1", "Service", is_service_reachable),
    ("networking.k8s.io/v1", "Ingress", has_address),
    ("v1", "PersistentVolumeClaim", is_bound),
    ("v1", "Pod", is_pod_ready_or_done),
    ("policy/v1", "PodDisruptionBudget", has_healthy_pods),
];

fn rule(api_version: &str, kind: &str) -> Option<Rule> {
    let mut rules = RULES.iter();
    let (_, _, rule) = rules.find(|(version, name, _)| (*version, *name) == (api_version, kind))?;
    Some(*rule)
}

/// Reports whether a kind has a health rule.
pub(crate) fn has_health_rule(api_version: &str, kind: &str) -> bool {
    rule(api_version, kind).is_some()
}

/// Reports whether an object is healthy. Objects of kinds without a health rule are always healthy.
pub(crate) fn is_healthy(object: &Value) -> bool {
    let (api_version, kind) = kind_of(object);
    let status = object.get("status").unwrap_or(&Value::Null);
    rule(api_version, kind).is_none_or(|rule| rule(object, status))
}

fn is_observed(object: &Value, status: &Value) -> bool {
    number(status, "observedGeneration") == generation(object)
}

/// Reports whether a counter is at least `spec.replicas`. Returns true if `spec.replicas` is unset.
fn reaches_replicas(object: &Value, status: &Value, counter: &str) -> bool {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.is_none_or(|replicas| number(status, counter) >= replicas)
}

fn is_rolled_out(object: &Value, status: &Value) -> bool {
    is_observed(object, status)
        && reaches_replicas(object, status, "updatedReplicas")
        && number(status, "availableReplicas") >= number(status, "updatedReplicas")
}

fn is_replica_set_available(object: &Value, status: &Value) -> bool {
    is_observed(object, status) && reaches_replicas(object, status, "availableReplicas")
}

fn is_daemon_set_available(object: &Value, status: &Value) -> bool {
    let updated = number(status, "updatedNumberScheduled");
    is_observed(object, status)
        && updated >= number(status, "desiredNumberScheduled")
        && number(status, "numberAvailable") >= updated
}

fn is_service_reachable(object: &Value, status: &Value) -> bool {
    object.pointer("/spec/type") != Some(&json!("LoadBalancer")) || has_address(object, status)
}

fn has_address(_: &Value, status: &Value) -> bool {
    let is_set = |entry: &Value, field: &str| {
        let text = entry.get(field).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    let ingress = status.pointer("/loadBalancer/ingress");
    let mut entries = ingress.and_then(Value::as_array).into_iter().flatten();
    entries.any(|entry| is_set(entry, "hostname") || is_set(entry, "ip"))
}

fn is_bound(_: &Value, status: &Value) -> bool {
    status.get("phase") == Some(&json!("Bound"))
}

fn is_pod_ready_or_done(_: &Value, status: &Value) -> bool {
    match status.get("phase").and_then(Value::as_str) {
        Some("Succeeded") => true,
        Some("Running") => has_condition(status, "Ready"),
        _ => false,
    }
}

fn has_healthy_pods(_: &Value, status: &Value) -> bool {
    number(status, "currentHealthy") >= number(status, "desiredHealthy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_health_rule() {
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
            assert_eq!(has_health_rule(api_version, kind), kind != "Job", "{kind}");
        }
    }
}
