//! Preparation of an update: the fields that the update cannot change, the generation, and the detection of updates
//! without effect.

use serde_json::{Map, Value, json};

use super::edit_meta;
use crate::builtins::{pod_subresources, signing_request};
use crate::patch::managed;
use crate::resource::{Resource, Subresource};
use crate::verbs::Call;

/// Reports whether a write to the status subresource of this resource may also change labels, annotations, finalizers
/// and owner references.
fn status_updates_metadata(resource: &Resource) -> bool {
    let groups_without = ["apiextensions.k8s.io", "certificates.k8s.io"];
    !resource.is_custom() && !groups_without.contains(&resource.group.as_str())
}

/// Restores the stored values of all fields that the request must not change. The subresource determines these fields.
pub(super) fn restore_preserved_fields(call: &Call, old: &Value, new: &mut Value) {
    let resource = &call.resource;
    new["apiVersion"] = json!(resource.api_version());
    new["kind"] = json!(resource.kind);
    match call.subresource {
        Some(Subresource::Status) => {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            let mut merged = old.clone();
            if let Some(object) = merged.as_object_mut() {
                match status {
                    Some(status) => drop(object.insert("status".into(), status)),
                    None => drop(object.remove("status")),
                }
            }
            if status_updates_metadata(resource) {
                let preserved = match resource.plural.as_str() {
                    "deployments" => Some("labels"),
                    "pods" => Some("ownerReferences"),
                    _ => None,
                };
                merged["metadata"] = new["metadata"].take();
                edit_meta(&mut merged, |meta| {
                    if let Some(name) = preserved {
                        match old["metadata"].get(name) {
                            Some(value) => drop(meta.insert(name.to_owned(), value.clone())),
                            None => drop(meta.remove(name)),
                        }
                    }
                });
            }
            if let Some(managed) = managed {
                merged["metadata"]["managedFields"] = managed;
            }
            *new = merged;
        }
        Some(Subresource::Finalize) => {
            let finalizers = new["spec"]["finalizers"].take();
            let mut merged = old.clone();
            merged["spec"]["finalizers"] = finalizers;
            *new = merged;
        }
        Some(Subresource::Approval) => {
            let conditions = new["status"]["conditions"].take();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            new["status"]["conditions"] = conditions;
            if let Some(managed) = managed {
                new["metadata"]["managedFields"] = managed;
            }
        }
        Some(part @ (Subresource::Ephemeral | Subresource::Resize)) => {
            let managed = new["metadata"].get("managedFields").cloned();
            *new = if part == Subresource::Resize {
                pod_subresources::resized(old, new)
            } else {
                pod_subresources::with_ephemeral(old, new)
            };
            if let Some(managed) = managed {
                new["metadata"]["managedFields"] = managed;
            }
        }
        Some(Subresource::Binding) => {}
        Some(Subresource::Scale) | None => {
            if signing_request::is_signing_request(resource) {
                new["spec"] = old["spec"].clone();
            }
            if resource.status
                && let Some(object) = new.as_object_mut()
            {
                match old.get("status") {
                    Some(status) => drop(object.insert("status".into(), status.clone())),
                    None => drop(object.remove("status")),
                }
            }
            if resource.is("", "namespaces") {
                new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
            }
        }
    }
    edit_meta(new, |map| {
        for owned in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "generateName",
        ] {
            match old["metadata"].get(owned) {
                Some(value) => drop(map.insert(owned.to_owned(), value.clone())),
                None => drop(map.remove(owned)),
            }
        }
        map.remove("selfLink");
    });
}

/// Increments the generation if the update changes the desired state of the object.
pub(super) fn bump_generation(call: &Call, old: &Value, new: &mut Value) {
    let resource = &*call.resource;
    if !resource.generation || call.subresource == Some(Subresource::Binding) {
        return;
    }
    let new_annotations = resource.is("apps", "deployments")
        && old["metadata"]["annotations"] != new["metadata"]["annotations"];
    let new_labels = resource.is("discovery.k8s.io", "endpointslices")
        && old["metadata"]["labels"] != new["metadata"]["labels"];
    let counts_all_fields = [
        "endpointslices",
        "mutatingwebhookconfigurations",
        "podtemplates",
        "validatingwebhookconfigurations",
    ]
    .contains(&resource.plural.as_str());
    let changed = if resource.is_custom() || counts_all_fields {
        let mut keys = old
            .as_object()
            .into_iter()
            .chain(new.as_object())
            .flat_map(Map::keys);
        keys.any(|k| {
            k != "metadata"
                && !(k == "status" && resource.status)
                && old[k.as_str()] != new[k.as_str()]
        }) || new_labels
    } else {
        // Annotations of a Deployment are part of its desired state, because its ReplicaSets get a copy of the
        // annotations.
        old["spec"] != new["spec"] || new_annotations
    };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        new["metadata"]["generation"] = json!(generation);
    }
}

/// Reports whether two versions of an object are equal, apart from the timestamps of the managed fields. The caller
/// does not store such an update.
pub(super) fn is_no_op(old: &Value, new: &Value) -> bool {
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    if a.len() != b.len()
        || a.iter()
            .any(|(k, v)| k != "metadata" && b.get(k) != Some(v))
    {
        return false;
    }
    let (Some(a), Some(b)) = (old["metadata"].as_object(), new["metadata"].as_object()) else {
        return false;
    };
    let relevant = |m: &Map<String, Value>| m.len() - usize::from(m.contains_key("managedFields"));
    relevant(a) == relevant(b)
        && a.iter()
            .all(|(k, v)| k == "managedFields" || b.get(k) == Some(v))
        && managed::equal_except_times(
            &old["metadata"]["managedFields"],
            &new["metadata"]["managedFields"],
        )
}
