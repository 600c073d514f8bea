//! Requirements of a replica: its node claim and its resource requests.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value, json};

use super::pod_requests::PodRequests;
use crate::InterpretError;

/// Returns the `spec.replicaRequirements` of a binding, or `None` if the pod has no requirements. `raw` is the JSON of
/// `pod`. The node claim is copied from the JSON, so that fields of newer Kubernetes versions are kept.
pub(super) fn requirements(raw: &Value, pod: &PodSpec) -> Result<Option<Value>, InterpretError> {
    let mut requirements = Map::new();
    if let Some(claim) = node_claim(raw) {
        requirements.insert("nodeClaim".to_owned(), claim);
    }
    let requests = PodRequests::of(pod)?.into_json();
    if !requests.is_empty() {
        requirements.insert("resourceRequest".to_owned(), Value::Object(requests));
    }
    Ok((!requirements.is_empty()).then_some(Value::Object(requirements)))
}

fn node_claim(pod: &Value) -> Option<Value> {
    let mut claim = Map::new();
    let required =
        pod.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    for (field, value) in [
        ("hardNodeAffinity", required),
        ("nodeSelector", pod.get("nodeSelector")),
        ("tolerations", pod.get("tolerations")),
    ] {
        if let Some(value) = value.filter(|value| !is_empty(value)) {
            claim.insert(field.to_owned(), value.clone());
        }
    }
    (!claim.is_empty()).then(|| json!(claim))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn of(pod: &Value) -> Option<Value> {
        requirements(pod, &PodSpec::deserialize(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_pod_without_requests_and_node_claim_has_no_requirements() {
        assert_eq!(
            of(&json!({"containers": [{"name": "c"}], "nodeSelector": {}, "tolerations": []})),
            None
        );
    }

    #[test]
    fn the_node_claim_has_node_selector_tolerations_and_required_affinity() {
        let affinity = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]});
        assert_eq!(
            of(&json!({
                "containers": [],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": affinity,
                    "preferredDuringSchedulingIgnoredDuringExecution": []}},
            })),
            Some(json!({"nodeClaim": {
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "hardNodeAffinity": affinity,
            }}))
        );
    }
}
