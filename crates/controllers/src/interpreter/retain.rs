//! What a member owns in an object that the control plane wants to change.

use std::collections::BTreeSet;

use berth_api::well_known::{MANAGED_ANNOTATIONS, MANAGED_LABELS, RETAIN_REPLICAS};
use serde_json::{Map, Value, json};

use super::revise::kind_of;

/// Completes a manifest with what the member owns in the object that is there.
pub fn retain(desired: &mut Value, observed: &Value) {
    retain_metadata(desired, observed);
    match kind_of(desired) {
        ("apps/v1", "Deployment") => retain_replicas(desired, observed),
        ("v1", "Pod") => retain_pod(desired, observed),
        ("v1", "Service") => {
            for (place, unset) in [("clusterIP", json!("")), ("healthCheckNodePort", json!(0))] {
                let value = observed.get("spec").and_then(|spec| spec.get(place));
                if let Some(value) = value.filter(|value| **value != unset) {
                    set(desired, "spec", place, value.clone());
                }
            }
        }
        ("v1", "ServiceAccount") => {
            for list in ["secrets", "imagePullSecrets"] {
                unite_by_name(desired, observed, list);
            }
        }
        ("v1", "PersistentVolumeClaim") => copy(desired, observed, "/spec/volumeName"),
        ("v1", "PersistentVolume") => copy(desired, observed, "/spec/claimRef"),
        ("batch/v1", "Job") => {
            copy(desired, observed, "/spec/selector/matchLabels");
            copy(desired, observed, "/spec/template/metadata/labels");
        }
        ("v1", "Secret")
            if desired.get("type") == Some(&json!("kubernetes.io/service-account-token")) =>
        {
            copy(desired, observed, "/data");
        }
        _ => {}
    }
}

/// Finalizers, owners, and the labels and annotations that came from elsewhere. Keys that once came from the
/// control plane and are no longer there go.
fn retain_metadata(desired: &mut Value, observed: &Value) {
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
        let once_ours: BTreeSet<&str> = annotations
            .and_then(|annotations| annotations.get(list)?.as_str())
            .unwrap_or_default()
            .split(',')
            .collect();
        let present = observed.pointer(&format!("/metadata/{map}"));
        let present = present.and_then(Value::as_object).into_iter().flatten();
        for (key, value) in present.filter(|(key, _)| !once_ours.contains(key.as_str())) {
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
        let there = observed.pointer(list).and_then(Value::as_array);
        let wanted = desired.pointer_mut(list).and_then(Value::as_array_mut);
        for container in wanted.into_iter().flatten() {
            let mut same = there.into_iter().flatten();
            let same = same.find(|c| c.get("name") == container.get("name"));
            if let Some(mounts) = same.and_then(|c| c.get("volumeMounts"))
                && let Some(container) = container.as_object_mut()
            {
                container.insert("volumeMounts".to_owned(), mounts.clone());
            }
        }
    }
}

fn unite_by_name(desired: &mut Value, observed: &Value, list: &str) {
    let items = |from: &Value| {
        let items = from.get(list).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    let mut united = items(desired);
    for item in items(observed) {
        if !united
            .iter()
            .any(|known| known.get("name") == item.get("name"))
        {
            united.push(item);
        }
    }
    if let Some(account) = desired.as_object_mut()
        && !united.is_empty()
    {
        account.insert(list.to_owned(), Value::Array(united));
    }
}

/// Takes over the value at a place, if there is one; what leads there is made.
fn copy(desired: &mut Value, observed: &Value, place: &str) {
    let Some(value) = observed.pointer(place) else {
        return;
    };
    let mut slot = desired;
    for part in place.split('/').skip(1) {
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
        retain(&mut desired, &observed);
        desired
    }

    #[test]
    fn metadata_of_the_member_stays_and_ours_follows_the_template() {
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
    fn replicas_stay_only_where_asked() {
        for (labels, expected) in [(json!({}), 2), (json!({(RETAIN_REPLICAS): "true"}), 9)] {
            let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"labels": labels}, "spec": {"replicas": 2}});
            let result = retained(desired, json!({"spec": {"replicas": 9}}));
            assert_eq!(result["spec"]["replicas"], expected);
        }
    }

    #[test]
    fn what_the_member_allocates_stays() {
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
