//! Objects that a Work has applied and no longer contains. The executor deletes them from the member.
//!
//! The status of a Work names the objects that were applied, and survives a restart. The record of a Work also names
//! the objects that were applied after the last write of the status.

use berth_api::Work;
use berth_api::work::ResourceIdentifier;
use berth_apimachinery::json_fields::{kind_of, text_at};
use serde_json::{Value, json};

/// Returns the identifier of the object of a manifest.
pub(super) fn identifier(ordinal: usize, manifest: &Value) -> Option<ResourceIdentifier> {
    let (api_version, kind) = kind_of(manifest);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(ResourceIdentifier {
        ordinal: i64::try_from(ordinal).ok()?,
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        resource: String::new(),
        namespace: text_at(manifest, "/metadata/namespace").to_owned(),
        name: text_at(manifest, "/metadata/name").to_owned(),
    })
}

/// Returns a manifest that only identifies an object.
pub(super) fn identifying_manifest(object: &ResourceIdentifier) -> Value {
    let api_version = if object.group.is_empty() {
        object.version.clone()
    } else {
        format!("{}/{}", object.group, object.version)
    };
    let mut metadata = json!({ "name": object.name });
    if !object.namespace.is_empty() {
        metadata["namespace"] = json!(object.namespace);
    }
    json!({ "apiVersion": api_version, "kind": object.kind, "metadata": metadata })
}

/// Reports whether two identifiers name the same object. Their versions may differ, because the versions of an API group
/// show the same objects.
pub(super) fn is_same_object(a: &ResourceIdentifier, b: &ResourceIdentifier) -> bool {
    a.group == b.group && a.kind == b.kind && a.namespace == b.namespace && a.name == b.name
}

/// Reports whether a Work contains an object.
pub(super) fn contains(work: &Work, object: &ResourceIdentifier) -> bool {
    let manifests = work.spec.workload.manifests.iter();
    manifests
        .filter_map(|manifest| identifier(0, manifest))
        .any(|present| is_same_object(&present, object))
}

/// Returns the objects that a Work has applied and no longer contains. `former` are the objects of former versions of the
/// Work.
pub(super) fn removed_objects(
    work: &Work,
    former: &[ResourceIdentifier],
) -> Vec<ResourceIdentifier> {
    let status = work.status.iter();
    let reported = status.flat_map(|status| &status.manifest_statuses);
    let mut removed: Vec<ResourceIdentifier> = Vec::new();
    for object in reported.map(|report| &report.identifier).chain(former) {
        let is_listed = removed.iter().any(|listed| is_same_object(listed, object));
        if !is_listed && !contains(work, object) {
            removed.push(object.clone());
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(manifests: &Value, reported: &[&Value]) -> Work {
        let statuses = reported.iter().enumerate().map(|(ordinal, manifest)| {
            json!({ "identifier": identifier(ordinal, manifest), "health": "Healthy" })
        });
        serde_json::from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"workload": {"manifests": manifests}},
            "status": {"manifestStatuses": statuses.collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn object(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "shop"}})
    }

    #[test]
    fn objects_that_no_manifest_contains_are_removed() {
        let a = object("v1", "ConfigMap", "a");
        let b = object("v1", "ConfigMap", "b");
        let job = object("batch/v1", "CronJob", "a");
        let old_job = object("batch/v1beta1", "CronJob", "a");
        let former = [identifier(0, &b).unwrap(), identifier(1, &a).unwrap()];
        for (manifests, reported, former, expected) in [
            (json!([a, b]), vec![&a, &b], &[][..], vec![]),
            (json!([b]), vec![&a, &b], &[], vec!["a"]),
            (json!([a]), vec![], &former, vec!["b"]),
            (json!([]), vec![&a], &former, vec!["a", "b"]),
            // Another version of the group shows the same object. Another group or kind does not.
            (json!([job]), vec![&old_job], &[], vec![]),
            (json!([job]), vec![&a], &[], vec!["a"]),
        ] {
            let work = work(&manifests, &reported);
            let removed = removed_objects(&work, former);
            let names: Vec<&str> = removed.iter().map(|id| id.name.as_str()).collect();
            assert_eq!(names, expected, "{manifests}");
        }
    }

    #[test]
    fn an_identifying_manifest_identifies_the_object() {
        for manifest in [
            object("apps/v1", "Deployment", "a"),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
        ] {
            assert_eq!(
                identifying_manifest(&identifier(0, &manifest).unwrap()),
                manifest
            );
        }
    }
}
