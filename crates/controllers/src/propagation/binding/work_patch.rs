//! Conversion of a desired Work to the body of a create request, or to a minimal merge patch for a stored Work.

use berth_api::well_known::{
    APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, EXECUTION_FINALIZER, WORK_PERMANENT_ID,
};
use berth_api::{Work, manifest};
use serde_json::{Map, Value, json};

use super::desired_work::DesiredWork;

/// Returns the content of a new Work with this permanent id.
pub(crate) fn new_work(desired: &DesiredWork, id: &str) -> Value {
    let mut labels = json!(desired.labels);
    labels[WORK_PERMANENT_ID] = json!(id);
    json!({
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {
            "name": desired.name,
            "namespace": desired.namespace(),
            "labels": labels,
            "annotations": desired.annotations,
            "finalizers": [EXECUTION_FINALIZER],
        },
        "spec": spec(desired, id),
    })
}

/// Returns the merge patch that updates a stored Work to the desired Work, or `None` if the two are equal.
pub(crate) fn patch_for(work: &Work, desired: &DesiredWork) -> Option<Value> {
    let meta = &work.metadata;
    let mut metadata = Map::new();
    let mut labels = Map::new();
    let present = meta.labels.as_ref();
    for (key, value) in &desired.labels {
        if present.and_then(|labels| labels.get(key)) != Some(value) {
            labels.insert(key.clone(), json!(value));
        }
    }
    let mut annotations = Map::new();
    let present = meta.annotations.as_ref();
    for (key, value) in &desired.annotations {
        if present.and_then(|annotations| annotations.get(key)) != Some(value) {
            annotations.insert(key.clone(), json!(value));
        }
    }
    // Remove records of overrides that no longer apply.
    for key in [APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES] {
        let stale = present.is_some_and(|annotations| annotations.contains_key(key));
        if stale && !desired.annotations.contains_key(key) {
            annotations.insert(key.to_owned(), Value::Null);
        }
    }
    for (field, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(map));
        }
    }
    let finalizers = meta.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|name| name == EXECUTION_FINALIZER) {
        let mut finalizers = finalizers;
        finalizers.push(EXECUTION_FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let mut patch = Map::new();
    let desired_spec = spec(desired, permanent_id(work));
    let unchanged = work.spec.workload.manifests.as_slice()
        == [desired_spec["workload"]["manifests"][0].clone()]
        // Karmada omits these fields when they are false.
        && work.spec.suspend_dispatching.unwrap_or(false) == desired.suspended
        && work.spec.preserve_resources_on_deletion.unwrap_or(false) == desired.preserved;
    if !unchanged {
        patch.insert("spec".to_owned(), desired_spec);
    }
    if patch.is_empty() && metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(meta.resource_version));
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(patch))
}

/// Returns the permanent id of a Work, or an empty string if the Work has none.
fn permanent_id(work: &Work) -> &str {
    let labels = work.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(WORK_PERMANENT_ID))
        .map_or("", String::as_str)
}

fn spec(desired: &DesiredWork, id: &str) -> Value {
    let mut manifest = desired.manifest.clone();
    manifest::mark_managed(&mut manifest, id);
    json!({
        "workload": { "manifests": [manifest] },
        "suspendDispatching": desired.suspended,
        "preserveResourcesOnDeletion": desired.preserved,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn desired() -> DesiredWork {
        DesiredWork {
            cluster: "m1".to_owned(),
            name: "web".to_owned(),
            labels: BTreeMap::from([("id".to_owned(), "1".to_owned())]),
            annotations: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            manifest: json!({"kind": "ConfigMap", "metadata": {"name": "web"}}),
            suspended: false,
            preserved: false,
        }
    }

    #[test]
    fn a_new_work_needs_no_change() {
        let work: Work = serde_json::from_value(new_work(&desired(), "w-1")).unwrap();
        assert_eq!(permanent_id(&work), "w-1");
        assert_eq!(patch_for(&work, &desired()), None);
    }

    #[test]
    fn a_patch_contains_only_differences() {
        let mut object = new_work(&desired(), "w-1");
        object["metadata"]["annotations"][APPLIED_OVERRIDES] = json!("[]");
        object["metadata"]["resourceVersion"] = json!("7");
        let work: Work = serde_json::from_value(object).unwrap();
        assert_eq!(
            patch_for(&work, &desired()).unwrap(),
            json!({"metadata": {"resourceVersion": "7", "annotations": {(APPLIED_OVERRIDES): null}}})
        );
        let suspended = DesiredWork {
            suspended: true,
            ..desired()
        };
        assert_eq!(
            patch_for(&work, &suspended).unwrap()["spec"]["suspendDispatching"],
            true
        );
        let mut bare = work;
        bare.metadata.finalizers = None;
        assert_eq!(
            patch_for(&bare, &desired()).unwrap()["metadata"]["finalizers"],
            json!([EXECUTION_FINALIZER])
        );
    }
}
