//! Conversion of a template to a manifest for a member cluster: [`prune`] removes the fields that are specific to the
//! control plane. [`mark_managed`] adds the labels and annotations of managed objects.

use serde_json::{Map, Value, json};

use crate::well_known;

/// Metadata fields that an API server sets, or that are only meaningful in one cluster.
const OWN_METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// Labels that the Job controller adds to selectors and pods.
const JOB_LABELS: [&str; 4] = [
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
];

/// Removes the fields that each cluster sets itself, such as the UID and the status.
///
/// ```
/// use serde_json::json;
///
/// let mut manifest = json!({
///     "apiVersion": "v1",
///     "kind": "ConfigMap",
///     "metadata": { "name": "settings", "uid": "0b1c", "resourceVersion": "7" },
///     "data": { "key": "value" },
/// });
/// berth_api::manifest::prune(&mut manifest);
/// assert_eq!(manifest["metadata"], json!({ "name": "settings" }));
/// ```
pub fn prune(manifest: &mut Value) {
    if let Some(metadata) = object_at(manifest, "/metadata") {
        for field in OWN_METADATA {
            metadata.remove(field);
        }
    }
    if let Some(fields) = manifest.as_object_mut() {
        fields.remove("status");
    }
    let kind = manifest.get("kind").and_then(Value::as_str);
    match kind.map(str::to_owned).as_deref() {
        Some("Deployment") => prune_annotations(
            manifest,
            &[
                "deployment.kubernetes.io/revision",
                "deployment.kubernetes.io/revision-history",
            ],
        ),
        Some("Job") => prune_job(manifest),
        Some("Secret") => prune_secret(manifest),
        Some("ServiceAccount") => prune_service_account(manifest),
        Some("Service") => prune_service(manifest),
        Some("PersistentVolumeClaim") => {
            prune_annotations(manifest, &["volume.kubernetes.io/selected-node"]);
        }
        _ => {}
    }
}

/// Adds a label with the id of the Work, and two annotations that list the label keys and the annotation keys.
///
/// If a later manifest lacks a listed key, this key is removed from the object in the member cluster.
pub fn mark_managed(manifest: &mut Value, work_id: &str) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if !work_id.is_empty()
        && let Some(labels) = strings(metadata, "labels")
    {
        labels.insert(well_known::WORK_PERMANENT_ID.to_owned(), json!(work_id));
    }
    let labels = keys(metadata.get("labels"), &[]);
    let own = [well_known::MANAGED_ANNOTATIONS, well_known::MANAGED_LABELS];
    let annotated = keys(metadata.get("annotations"), &own);
    if let Some(annotations) = strings(metadata, "annotations") {
        annotations.insert(own[0].to_owned(), json!(annotated));
        annotations.insert(own[1].to_owned(), json!(labels));
    }
}

fn keys(map: Option<&Value>, more: &[&str]) -> String {
    let present = map.and_then(Value::as_object).into_iter().flatten();
    let mut keys: Vec<&str> = present.map(|(key, _)| key.as_str()).collect();
    keys.extend(more);
    keys.sort_unstable();
    keys.dedup();
    keys.join(",")
}

fn strings<'a>(
    metadata: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let slot = metadata.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut()
}

fn object_at<'a>(manifest: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    manifest.pointer_mut(pointer).and_then(Value::as_object_mut)
}

fn prune_annotations(manifest: &mut Value, keys: &[&str]) {
    if let Some(annotations) = object_at(manifest, "/metadata/annotations") {
        for key in keys {
            annotations.remove(*key);
        }
    }
}

/// Removes the generated labels and the TTL. With the TTL, the Job would expire in the member cluster, and the control
/// plane would create it again.
fn prune_job(manifest: &mut Value) {
    let manual = manifest.pointer("/spec/manualSelector") == Some(&json!(true));
    if !manual {
        for path in [
            "/spec/selector/matchLabels",
            "/spec/template/metadata/labels",
        ] {
            if let Some(labels) = object_at(manifest, path) {
                for label in JOB_LABELS {
                    labels.remove(label);
                }
            }
        }
    }
    if let Some(spec) = object_at(manifest, "/spec") {
        spec.remove("ttlSecondsAfterFinished");
    }
}

fn prune_secret(manifest: &mut Value) {
    if manifest.get("type") == Some(&json!("kubernetes.io/service-account-token")) {
        prune_annotations(manifest, &["kubernetes.io/service-account.uid"]);
        if let Some(secret) = manifest.as_object_mut() {
            secret.remove("data");
        }
    }
}

fn prune_service_account(manifest: &mut Value) {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str);
    let prefix = format!("{}-token-", name.unwrap_or_default());
    if let Some(secrets) = manifest.get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| {
            let name = secret.get("name").and_then(Value::as_str);
            name.is_none_or(|name| !name.starts_with(&prefix))
        });
    }
}

fn prune_service(manifest: &mut Value) {
    if let Some(spec) = object_at(manifest, "/spec")
        && spec.get("clusterIP").is_some_and(|ip| ip != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(mut manifest: Value) -> Value {
        prune(&mut manifest);
        manifest
    }

    #[test]
    fn prune_removes_control_plane_metadata() {
        assert_eq!(
            pruned(
                json!({"kind": "Deployment", "status": {"replicas": 1}, "metadata": {
                "name": "web", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "t", "managedFields": [], "finalizers": ["f"],
                "ownerReferences": [], "labels": {"a": "b"},
                "annotations": {"deployment.kubernetes.io/revision": "2", "keep": "me"}}})
            ),
            json!({"kind": "Deployment", "metadata": {
                "name": "web", "labels": {"a": "b"}, "annotations": {"keep": "me"}}})
        );
    }

    #[test]
    fn prune_removes_addresses_and_generated_selectors() {
        for (kept, spec) in [
            (
                json!({"type": "ClusterIP"}),
                json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
            ),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"]}),
                json!({"clusterIP": "None", "clusterIPs": ["None"]}),
            ),
        ] {
            assert_eq!(
                pruned(json!({"kind": "Service", "spec": spec}))["spec"],
                kept
            );
        }
        let job = |manual: bool| {
            pruned(
                json!({"kind": "Job", "spec": {"manualSelector": manual, "ttlSecondsAfterFinished": 5,
                "selector": {"matchLabels": {"controller-uid": "u", "mine": "1"}},
                "template": {"metadata": {"labels": {"job-name": "j", "mine": "1"}}}}}),
            )
        };
        assert_eq!(
            job(false)["spec"],
            json!({"manualSelector": false, "selector": {"matchLabels": {"mine": "1"}},
                "template": {"metadata": {"labels": {"mine": "1"}}}})
        );
        assert_eq!(
            job(true)["spec"]["selector"]["matchLabels"]["controller-uid"],
            "u"
        );
    }

    #[test]
    fn prune_removes_service_account_tokens() {
        assert_eq!(
            pruned(
                json!({"kind": "Secret", "type": "kubernetes.io/service-account-token",
                "data": {"token": "eA=="}, "metadata": {"annotations": {
                    "kubernetes.io/service-account.uid": "u", "kubernetes.io/service-account.name": "n"}}})
            ),
            json!({"kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"annotations": {"kubernetes.io/service-account.name": "n"}}})
        );
        assert_eq!(
            pruned(json!({"kind": "ServiceAccount", "metadata": {"name": "sa"},
                "secrets": [{"name": "sa-token-x"}, {"name": "mine"}]}))["secrets"],
            json!([{"name": "mine"}])
        );
    }

    #[test]
    fn marking_lists_every_key_and_is_idempotent() {
        let mut manifest = json!({"metadata": {"labels": {"b": "1"}, "annotations": {"x": "y"}}});
        mark_managed(&mut manifest, "id-1");
        let once = manifest.clone();
        assert_eq!(
            once["metadata"],
            json!({"labels": {"b": "1", "work.karmada.io/permanent-id": "id-1"}, "annotations": {
                "x": "y",
                "resourcetemplate.karmada.io/managed-annotations":
                    "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,x",
                "resourcetemplate.karmada.io/managed-labels": "b,work.karmada.io/permanent-id"}})
        );
        mark_managed(&mut manifest, "id-1");
        assert_eq!(manifest, once);
    }
}
