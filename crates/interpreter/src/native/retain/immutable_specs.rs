//! Fields of immutable specs that a manifest does not set, such as the storage class that a claim got by default. The
//! member owns these fields, because it refuses an update without them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::copy;

/// Immutable fields of a StatefulSet's spec.
pub(super) const STATEFUL_SET: &[&str] = &[
    "podManagementPolicy",
    "selector",
    "serviceName",
    "volumeClaimTemplates",
];
/// Immutable fields of a Job's spec, except `completions` and `template`.
const JOB: &[&str] = &[
    "backoffLimitPerIndex",
    "completionMode",
    "managedBy",
    "podFailurePolicy",
    "successPolicy",
];

/// Retains the fields of a Job that cannot change. An existing Job keeps its completions, although a change of the
/// clusters changes the share of each cluster.
pub(super) fn retain_job(desired: &mut Value, observed: &Value) {
    fill_only(desired, observed, JOB);
    let spec = desired.get("spec").unwrap_or(&Value::Null);
    let in_tandem =
        spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    if !in_tandem {
        copy(desired, observed, "/spec/completions");
    }
    // The template of a suspended Job can change.
    if observed.pointer("/spec/suspend") != Some(&json!(true)) {
        fill_only(desired, observed, &["template"]);
    }
}

/// Retains the fields of a Pod that cannot change.
pub(super) fn retain_pod(desired: &mut Value, observed: &Value) {
    // Scheduling gates can only be removed, by the template and by the member.
    let gates = desired.pointer("/spec/schedulingGates").cloned();
    fill(desired, observed);
    let left = observed.pointer("/spec/schedulingGates");
    let left = left.and_then(Value::as_array);
    let mut gates = gates
        .and_then(|gates| gates.as_array().cloned())
        .unwrap_or_default();
    gates.retain(|gate| left.is_some_and(|left| left.contains(gate)));
    if let Some(spec) = desired.get_mut("spec").and_then(Value::as_object_mut) {
        if gates.is_empty() {
            spec.remove("schedulingGates");
        } else {
            spec.insert("schedulingGates".to_owned(), Value::Array(gates));
        }
    }
}

/// Copies the absent fields of the spec from the observed object.
pub(super) fn fill(desired: &mut Value, observed: &Value) {
    fill_where(desired, observed, |_| true);
}

/// Copies these absent fields of the spec from the observed object.
pub(super) fn fill_only(desired: &mut Value, observed: &Value, fields: &[&str]) {
    fill_where(desired, observed, |field| fields.contains(&field));
}

fn fill_where(desired: &mut Value, observed: &Value, is_filled: impl Fn(&str) -> bool) {
    let (Some(desired), Some(Value::Object(observed))) =
        (desired.get_mut("spec"), observed.get("spec"))
    else {
        return;
    };
    for (field, value) in observed.iter().filter(|(field, _)| is_filled(field)) {
        fill_field(desired, field, value);
    }
}

fn fill_field(desired: &mut Value, field: &str, observed: &Value) {
    let Some(fields) = desired.as_object_mut() else {
        return;
    };
    match fields.get_mut(field).filter(|slot| !slot.is_null()) {
        None => drop(fields.insert(field.to_owned(), observed.clone())),
        // Tolerations of a pod cannot be removed.
        Some(Value::Array(desired)) if field == "tolerations" => {
            let observed = observed.as_array().cloned().unwrap_or_default();
            let own = std::mem::replace(desired, observed);
            let added = own.into_iter().filter(|item| !desired.contains(item));
            let added: Vec<Value> = added.collect();
            desired.extend(added);
        }
        Some(slot) => fill_value(slot, observed),
    }
}

/// Copies the fields that are absent in the desired value. Items of lists are matched by their names, if all items have
/// different names. Other lists stay.
fn fill_value(desired: &mut Value, observed: &Value) {
    match (desired, observed) {
        (desired @ Value::Object(_), Value::Object(observed)) => {
            for (field, value) in observed {
                fill_field(desired, field, value);
            }
        }
        (Value::Array(desired), Value::Array(observed))
            if has_unique_names(desired) && has_unique_names(observed) =>
        {
            let mut own = std::mem::take(desired);
            for item in observed {
                let mut filled = item.clone();
                if let Some(index) = own.iter().position(|own| name_of(own) == name_of(item)) {
                    filled = own.remove(index);
                    fill_value(&mut filled, item);
                }
                desired.push(filled);
            }
            desired.append(&mut own);
        }
        _ => {}
    }
}

fn name_of(item: &Value) -> Option<&str> {
    let name = item.get("name").or_else(|| item.pointer("/metadata/name"));
    name.and_then(Value::as_str)
}

fn has_unique_names(items: &[Value]) -> bool {
    let names: BTreeSet<Option<&str>> = items.iter().map(name_of).collect();
    names.len() == items.len() && !names.contains(&None)
}

#[cfg(test)]
mod tests {
    use super::super::retain_fields;
    use super::*;

    fn retained(mut desired: Value, observed: Value) -> Value {
        retain_fields(&mut desired, &observed);
        desired
    }

    #[test]
    fn defaults_of_the_member_in_immutable_specs_are_retained() {
        for (api_version, kind, desired, observed, expected) in [
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"resources": {"requests": {"storage": "2Gi"}}}),
                json!({"storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}),
                json!({"storageClassName": "standard", "resources": {"requests": {"storage": "2Gi"}}}),
            ),
            (
                "v1",
                "PersistentVolume",
                json!({"hostPath": {"path": "/d"}}),
                json!({"nodeAffinity": {"required": {}}, "mountOptions": ["ro"]}),
                json!({"hostPath": {"path": "/d"}, "nodeAffinity": {"required": {}}}),
            ),
            (
                "v1",
                "Service",
                json!({"type": "LoadBalancer"}),
                json!({"type": "LoadBalancer", "loadBalancerClass": "cloud", "externalIPs": []}),
                json!({"type": "LoadBalancer", "loadBalancerClass": "cloud"}),
            ),
            (
                "v1",
                "Service",
                json!({"type": "ClusterIP"}),
                json!({"type": "LoadBalancer", "loadBalancerClass": "cloud"}),
                json!({"type": "ClusterIP"}),
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]}),
                json!({"replicas": 3, "podManagementPolicy": "Parallel", "volumeClaimTemplates": [
                    {"metadata": {"name": "d"}, "spec": {"storageClassName": "standard"}}]}),
                json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": [
                    {"metadata": {"name": "d"}, "spec": {"storageClassName": "standard"}}]}),
            ),
        ] {
            let desired = json!({"apiVersion": api_version, "kind": kind, "spec": desired});
            let result = retained(desired, json!({"spec": observed}));
            assert_eq!(result["spec"], expected, "{kind}");
        }
    }

    #[test]
    fn a_pod_keeps_what_the_member_added() {
        let toleration = |key: &str| json!({"key": key});
        let desired = json!({"apiVersion": "v1", "kind": "Pod", "spec": {
            "containers": [{"name": "main", "image": "new", "resources": {"limits": {"cpu": "1"}},
                "env": [{"name": "A", "value": "1"}]}],
            "tolerations": [toleration("own")],
            "schedulingGates": [{"name": "kept"}, {"name": "gone"}]}});
        let observed = json!({"spec": {
            "containers": [
                {"name": "sidecar", "image": "mesh"},
                {"name": "main", "image": "old", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "env": [{"name": "HOST", "value": "h"}, {"name": "A", "value": "1"}]}],
            "tolerations": [toleration("default"), toleration("own")],
            "priorityClassName": "standard",
            "imagePullSecrets": [{"name": "registry"}],
            "schedulingGates": [{"name": "kept"}, {"name": "removed by the template"}]}});
        assert_eq!(
            retained(desired, observed)["spec"],
            json!({
                "containers": [
                    {"name": "sidecar", "image": "mesh"},
                    {"name": "main", "image": "new", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                        "env": [{"name": "HOST", "value": "h"}, {"name": "A", "value": "1"}]}],
                "tolerations": [toleration("default"), toleration("own")],
                "priorityClassName": "standard",
                "imagePullSecrets": [{"name": "registry"}],
                "schedulingGates": [{"name": "kept"}]})
        );
    }

    #[test]
    fn a_job_keeps_its_completions_unless_they_follow_the_parallelism() {
        let spec = |completions: i32, parallelism: i32, mode: &str| json!({"completions": completions, "parallelism": parallelism, "completionMode": mode});
        for (desired, expected) in [
            (spec(40, 4, "NonIndexed"), 20),
            (spec(4, 4, "NonIndexed"), 20),
            (spec(40, 4, "Indexed"), 20),
            (spec(4, 4, "Indexed"), 4),
        ] {
            let desired = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": desired});
            let result = retained(desired.clone(), json!({"spec": {"completions": 20}}));
            assert_eq!(result["spec"]["completions"], expected, "{desired}");
        }
        let pod = |suspended: bool| {
            let desired = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {}}}});
            let observed = json!({"spec": {"suspend": suspended, "template": {
                "spec": {"nodeSelector": {"disk": "ssd"}}}}});
            retained(desired, observed)["spec"]["template"]["spec"].clone()
        };
        assert_eq!(pod(false), json!({"nodeSelector": {"disk": "ssd"}}));
        assert_eq!(pod(true), json!({}));
    }
}
