//! Retention of the fields that a member owns. An update of the object in the member must keep these fields.

mod immutable_specs;

use std::collections::BTreeSet;

use berth_api::well_known::{MANAGED_ANNOTATIONS, MANAGED_LABELS, RETAIN_REPLICAS};
use berth_apimachinery::json_fields::kind_of;
use serde_json::{Map, Value, json};

/// Copies the fields of Kubernetes' kinds that the member owns from the observed object to the desired object.
pub(crate) fn retain_fields(desired: &mut Value, observed: &Value) {
    match kind_of(desired) {
        ("apps/v1", "Deployment") => retain_replicas(desired, observed),
        ("v1", "Pod") => retain_pod(desired, observed),
        ("v1", "Service") => {
            for (field, unset) in [("clusterIP", json!("")), ("healthCheckNodePort", json!(0))] {
                let value = observed.get("spec").and_then(|spec| spec.get(field));
                if let Some(value) = value.filter(|value| **value != unset) {
                    set(desired, "spec", field, value.clone());
                }
            }
            let is_balancer =
                |service: &Value| service.pointer("/spec/type") == Some(&json!("LoadBalancer"));
            if is_balancer(desired) && is_balancer(observed) {
                immutable_specs::fill_only(desired, observed, &["loadBalancerClass"]);
            }
        }
        ("v1", "ServiceAccount") => {
            for list in ["secrets", "imagePullSecrets"] {
                merge_by_name(desired, observed, list);
            }
        }
        ("v1", "PersistentVolumeClaim") => {
            copy(desired, observed, "/spec/volumeName");
            immutable_specs::fill(desired, observed);
        }
        ("v1", "PersistentVolume") => {
            copy(desired, observed, "/spec/claimRef");
            immutable_specs::fill_only(desired, observed, &["nodeAffinity", "volumeMode"]);
        }
        ("apps/v1", "StatefulSet") => {
            immutable_specs::fill_only(desired, observed, immutable_specs::STATEFUL_SET);
        }
        ("batch/v1", "Job") => {
            copy(desired, observed, "/spec/selector/matchLabels");
            copy(desired, observed, "/spec/template/metadata/labels");
            immutable_specs::retain_job(desired, observed);
        }
        ("v1", "Secret")
            if desired.get("type") == Some(&json!("kubernetes.io/service-account-token")) =>
        {
            copy(desired, observed, "/data");
        }
        _ => {}
    }
}

/// Retains the resource version, finalizers, owner references, and the labels and annotations that other clients of the
/// member set. Removes a key that the control plane set earlier and no longer sets.
pub(crate) fn retain_metadata(desired: &mut Value, observed: &Value) {
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        match observed.pointer(&format!("/metadata/{field}")) {
            Some(value) => set(desired, "metadata", field, value.clone()),
            None => {
                if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove(field);
                }
            }
        }
    }
    for (map, list) in [
        ("annotations", MANAGED_ANNOTATIONS),
        ("labels", MANAGED_LABELS),
    ] {
        let annotations = observed.pointer("/metadata/annotations");
        let managed: BTreeSet<&str> = annotations
            .and_then(|annotations| annotations.get(list)?.as_str())
            .unwrap_or_default()
            .split(',')
            .collect();
        let present = observed.pointer(&format!("/metadata/{map}"));
        let present = present.and_then(Value::as_object).into_iter().flatten();
        for (key, value) in present.filter(|(key, _)| !managed.contains(key.as_str())) {
            if let Some(entries) = map_in(desired, "metadata", map) {
                entries.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
}

fn retain_replicas(desired: &mut Value, observed: &Value) {
    let labels = desired.pointer("/metadata/labels");
    if labels.and_then(|labels| labels.get(RETAIN_REPLICAS)) == Some(&json!("true")) {
        copy(desired, observed, "/spec/replicas");
    }
}

fn retain_pod(desired: &mut Value, observed: &Value) {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy(desired, observed, &format!("/spec/{field}"));
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let observed = observed.pointer(list).and_then(Value::as_array);
        let desired = desired.pointer_mut(list).and_then(Value::as_array_mut);
        for container in desired.into_iter().flatten() {
            let mut observed = observed.into_iter().flatten();
            let observed = observed.find(|c| c.get("name") == container.get("name"));
            if let Some(mounts) = observed.and_then(|c| c.get("volumeMounts"))
                && let Some(container) = container.as_object_mut()
            {
                container.insert("volumeMounts".to_owned(), mounts.clone());
            }
        }
    }
    immutable_specs::retain_pod(desired, observed);
}

/// Adds the items of an observed list whose names are absent from the desired list.
fn merge_by_name(desired: &mut Value, observed: &Value, list: &str) {
    let items = |from: &Value| {
        let items = from.get(list).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    let mut merged = items(desired);
    for item in items(observed) {
        if !merged
            .iter()
            .any(|known| known.get("name") == item.get("name"))
        {
            merged.push(item);
        }
    }
    if let Some(account) = desired.as_object_mut()
        && !merged.is_empty()
    {
        account.insert(list.to_owned(), Value::Array(merged));
    }
}

/// Copies the value at a JSON pointer if it exists, and creates missing parents.
fn copy(desired: &mut Value, observed: &Value, pointer: &str) {
    let Some(value) = observed.pointer(pointer) else {
        return;
    };
    let mut slot = desired;
    for part in pointer.split('/').skip(1) {
        if slot.is_null() {
            *slot = json!({});
        }
        let Some(fields) = slot.as_object_mut() else {
            return;
        };
        slot = fields.entry(part).or_insert(Value::Null);
    }
    *slot = value.clone();
}

fn set(manifest: &mut Value, parent: &str, field: &str, value: Value) {
    if let Some(parent) = manifest.get_mut(parent).and_then(Value::as_object_mut) {
        parent.insert(field.to_owned(), value);
    }
}

fn map_in<'a>(
    manifest: &'a mut Value,
    parent: &str,
    map: &str,
) -> Option<&'a mut Map<String, Value>> {
    let parent = manifest.get_mut(parent)?.as_object_mut()?;
    let slot = parent.entry(map).or_insert_with(|| json!({}));
    slot.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained(mut desired: Value, observed: Value) -> Value {
        retain_metadata(&mut desired, &observed);
        retain_fields(&mut desired, &observed);
        desired
    }

    #[test]
    fn foreign_metadata_stays_and_managed_metadata_follows_the_template() {
        let result = retained(
            json!({"metadata": {"name": "x", "labels": {"a": "new"}, "finalizers": ["ours"]}}),
            json!({"metadata": {"name": "x", "resourceVersion": "5", "ownerReferences": [{"name": "o"}],
                "labels": {"a": "old", "gone": "1", "theirs": "1"},
                "annotations": {"theirs": "1", "resourcetemplate.karmada.io/managed-labels": "a,gone",
                    "resourcetemplate.karmada.io/managed-annotations":
                        "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels"}}}),
        );
        assert_eq!(
            result,
            json!({"metadata": {"name": "x", "resourceVersion": "5", "ownerReferences": [{"name": "o"}],
                "labels": {"a": "new", "theirs": "1"}, "annotations": {"theirs": "1"}}})
        );
    }

    #[test]
    fn replicas_are_retained_only_with_the_label_retain_replicas() {
        for (labels, expected) in [(json!({}), 2), (json!({(RETAIN_REPLICAS): "true"}), 9)] {
            let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"labels": labels}, "spec": {"replicas": 2}});
            let result = retained(desired, json!({"spec": {"replicas": 9}}));
            assert_eq!(result["spec"]["replicas"], expected);
        }
    }

    #[test]
    fn fields_that_the_member_allocates_are_retained() {
        let of = |kind: &str, desired: Value, observed: Value| {
            let mut desired = desired;
            desired["apiVersion"] = json!(if kind == "Job" { "batch/v1" } else { "v1" });
            desired["kind"] = json!(kind);
            retained(desired, observed)
        };
        let service = of(
            "Service",
            json!({"spec": {"type": "ClusterIP"}}),
            json!({"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 0}}),
        );
        assert_eq!(
            service["spec"],
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1"})
        );
        let job = of(
            "Job",
            json!({"spec": {"template": {}}}),
            json!({"spec": {"selector": {"matchLabels": {"u": "1"}}, "template": {"metadata": {"labels": {"u": "1"}}}}}),
        );
        assert_eq!(
            job["spec"],
            json!({"selector": {"matchLabels": {"u": "1"}},
            "template": {"metadata": {"labels": {"u": "1"}}}})
        );
        let account = of(
            "ServiceAccount",
            json!({"secrets": [{"name": "a"}]}),
            json!({"secrets": [{"name": "a"}, {"name": "b"}]}),
        );
        assert_eq!(account["secrets"], json!([{"name": "a"}, {"name": "b"}]));
        let pod = of(
            "Pod",
            json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}}),
            json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "volumeMounts": [1]}]}}),
        );
        assert_eq!(
            pod["spec"],
            json!({"nodeName": "n",
            "containers": [{"name": "c", "volumeMounts": [1]}, {"name": "d"}]})
        );
        let claim = of(
            "PersistentVolumeClaim",
            json!({"spec": {}}),
            json!({"spec": {"volumeName": "pv"}}),
        );
        assert_eq!(claim["spec"]["volumeName"], "pv");
    }
}
