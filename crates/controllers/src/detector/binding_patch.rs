//! Conversion of a desired binding to the body of a create request, or to a minimal merge patch for an existing
//! binding.
//!
//! Patches never change fields that the scheduler or other controllers write.

use berth_api::BindingKind;
use berth_api::cluster_queue::QUEUE_NAME;
use berth_api::well_known::{POLICY_LIMITS, PREEMPTIBLE, PREEMPTIBLE_COPIED};
use berth_apimachinery::merge_diff::merge_diff;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::claim::Claim;
use super::desired_binding::DesiredBinding;

/// Fields of the spec that the detector writes.
const DETECTOR_FIELDS: &[&str] = &[
    "resource",
    "replicas",
    "replicaRequirements",
    "components",
    "placement",
    "schedulerName",
    "failover",
    "conflictResolution",
    "preserveResourcesOnDeletion",
];
/// Fields that, as in Karmada, the detector updates in ResourceBindings only.
const NAMESPACED_FIELDS: &[&str] = &[
    "propagateDeps",
    "schedulePriority",
    "workloadAffinityGroups",
];

/// An error: the binding belongs to another object. This object is usually a deleted template of the same name whose
/// binding is not garbage-collected yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "binding {binding} belongs to another object with UID {owner}; trying again when it is garbage-collected"
)]
pub struct OtherOwner {
    /// The name of the binding.
    pub binding: String,
    /// The UID of the binding's owner.
    pub owner: String,
}

/// Returns the content of a new binding. `id` becomes its permanent id.
pub fn new_binding(desired: &DesiredBinding, id: &str) -> Value {
    let kind = desired.kind();
    let mut labels = desired.labels.clone();
    labels.insert(kind.id_label().to_owned(), json!(id));
    let mut metadata = json!({
        "name": &*desired.key.name,
        "labels": labels,
        "annotations": desired.annotations,
        "finalizers": [kind.finalizer()],
        "ownerReferences": [desired.owner],
    });
    if let Some(namespace) = &desired.key.namespace {
        metadata["namespace"] = json!(&**namespace);
    }
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": kind.name(),
        "metadata": metadata,
        "spec": desired.spec,
    })
}

/// Returns the merge patch that updates an existing binding, or `None` if it is up to date.
///
/// # Errors
/// When the binding belongs to another object.
pub fn binding_patch(
    existing: &DynamicObject,
    desired: &DesiredBinding,
) -> Result<Option<Value>, OtherOwner> {
    let meta = &existing.metadata;
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    if let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true))
        && owner.uid != desired.owner_uid
    {
        return Err(OtherOwner {
            binding: desired.key.name.to_string(),
            owner: owner.uid.clone(),
        });
    }
    let mut metadata = Map::new();
    let labels = meta.labels.iter().flatten();
    let mut label_changes = missing(
        &desired.labels,
        labels.map(|(k, v)| (k.as_str(), v.as_str())),
    );
    let annotations = meta.annotations.iter().flatten();
    let mut annotation_changes = missing(
        &desired.annotations,
        annotations.map(|(k, v)| (k.as_str(), v.as_str())),
    );
    add_removal_of_cluster_claim(
        existing,
        desired,
        &mut label_changes,
        &mut annotation_changes,
    );
    if !desired.annotations.contains_key(PREEMPTIBLE) {
        add_removal_of_preemptible(existing, &mut annotation_changes);
    }
    if !desired.labels.contains_key(QUEUE_NAME)
        && meta
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(QUEUE_NAME))
    {
        label_changes.insert(QUEUE_NAME.to_owned(), Value::Null);
    }
    add_removal_of_limits(existing, &desired.annotations, &mut annotation_changes);
    if !label_changes.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(label_changes));
    }
    if !annotation_changes.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotation_changes));
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    let finalizer = desired.kind().finalizer();
    // An object that is being deleted accepts no new finalizer.
    if meta.deletion_timestamp.is_none() && !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if serde_json::to_value(owners).ok() != Some(json!([desired.owner])) {
        metadata.insert("ownerReferences".to_owned(), json!([desired.owner]));
    }
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    let none = Map::new();
    let stored = existing.data.get("spec").and_then(Value::as_object);
    if let Some(spec) = spec_change(stored.unwrap_or(&none), desired) {
        patch.insert("spec".to_owned(), spec);
    }
    Ok((!patch.is_empty()).then_some(Value::Object(patch)))
}

/// Reports whether two versions of a binding differ in a field of the spec that the detector writes.
pub(super) fn differ_in_detector_fields(before: &DynamicObject, now: &DynamicObject) -> bool {
    let mut fields = DETECTOR_FIELDS
        .iter()
        .chain(NAMESPACED_FIELDS)
        .chain(&["suspension"]);
    fields.any(|name| spec_field(before, name) != spec_field(now, name))
}

fn spec_field<'a>(binding: &'a DynamicObject, field: &str) -> Option<&'a Value> {
    binding.data.get("spec")?.get(field)
}

/// Reports whether a patch changes only the resource version of the template.
pub(super) fn changes_only_version(patch: &Value) -> bool {
    let only = |value: &Value, field: &str| -> Option<Value> {
        let fields = value.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(field).cloned()
    };
    only(patch, "spec")
        .and_then(|spec| only(&spec, "resource"))
        .and_then(|resource| only(&resource, "resourceVersion"))
        .is_some()
}

/// Returns the metadata of a merge patch that removes the claim of a policy and the annotations copied from the policy.
pub fn release_metadata(claim: &Claim, existing: &DynamicObject) -> Value {
    let mut patch = claim.release_patch();
    if let Some(annotations) = patch["annotations"].as_object_mut() {
        add_removal_of_preemptible(existing, annotations);
        add_removal_of_limits(existing, &Map::new(), annotations);
    }
    patch
}

/// Adds the removal of the limits that neither the policy nor the template sets to `annotation_changes`.
fn add_removal_of_limits(
    existing: &DynamicObject,
    desired: &Map<String, Value>,
    annotation_changes: &mut Map<String, Value>,
) {
    let stored = existing.metadata.annotations.iter().flatten();
    for (name, _) in stored {
        if POLICY_LIMITS.contains(&name.as_str()) && !desired.contains_key(name) {
            annotation_changes.insert(name.clone(), Value::Null);
        }
    }
}

/// If the annotation of a policy about preemption was copied to the existing object, adds its removal to
/// `annotation_changes`.
fn add_removal_of_preemptible(
    existing: &DynamicObject,
    annotation_changes: &mut Map<String, Value>,
) {
    let mut annotations = existing.metadata.annotations.iter().flatten();
    if annotations.any(|(key, _)| key == PREEMPTIBLE_COPIED) {
        for key in [PREEMPTIBLE, PREEMPTIBLE_COPIED] {
            annotation_changes.insert(key.to_owned(), Value::Null);
        }
    }
}

/// If a PropagationPolicy claims the desired binding, removes the claim of a ClusterPropagationPolicy from the existing
/// binding: adds the removal to `label_changes` and `annotation_changes`.
fn add_removal_of_cluster_claim(
    existing: &DynamicObject,
    desired: &DesiredBinding,
    label_changes: &mut Map<String, Value>,
    annotation_changes: &mut Map<String, Value>,
) {
    use berth_api::well_known::{
        CLUSTER_PROPAGATION_POLICY_NAME, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    };
    if desired
        .annotations
        .contains_key(CLUSTER_PROPAGATION_POLICY_NAME)
    {
        return;
    }
    let has = |map: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
        map.as_ref().is_some_and(|map| map.contains_key(key))
    };
    if has(
        &existing.metadata.labels,
        CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    ) {
        label_changes.insert(
            CLUSTER_PROPAGATION_POLICY_PERMANENT_ID.to_owned(),
            Value::Null,
        );
    }
    if has(
        &existing.metadata.annotations,
        CLUSTER_PROPAGATION_POLICY_NAME,
    ) {
        annotation_changes.insert(CLUSTER_PROPAGATION_POLICY_NAME.to_owned(), Value::Null);
    }
}

fn missing<'a>(
    wanted: &Map<String, Value>,
    stored: impl Iterator<Item = (&'a str, &'a str)>,
) -> Map<String, Value> {
    let mut missing = wanted.clone();
    for (key, value) in stored {
        if missing.get(key).and_then(Value::as_str) == Some(value) {
            missing.remove(key);
        }
    }
    missing
}

fn spec_change(stored: &Map<String, Value>, desired: &DesiredBinding) -> Option<Value> {
    let namespaced: &[&str] = match desired.kind() {
        BindingKind::Namespaced => NAMESPACED_FIELDS,
        BindingKind::Cluster => &[],
    };
    let mut target = stored.clone();
    for field in DETECTOR_FIELDS.iter().chain(namespaced) {
        match desired.spec.get(*field) {
            Some(value) => target.insert((*field).to_owned(), value.clone()),
            None => target.remove(*field),
        };
    }
    match merged_suspension(stored.get("suspension"), desired.spec.get("suspension")) {
        Some(suspension) => target.insert("suspension".to_owned(), suspension),
        None => target.remove("suspension"),
    };
    merge_diff(&Value::Object(stored.clone()), &Value::Object(target))
}

/// Returns the suspension that the policy sets, together with the field `scheduling` of the stored binding.
fn merged_suspension(stored: Option<&Value>, wanted: Option<&Value>) -> Option<Value> {
    let scheduling = stored.and_then(|suspension| suspension.get("scheduling"));
    match (wanted, scheduling) {
        (None, None) => None,
        (wanted, scheduling) => {
            let mut merged = wanted.cloned().unwrap_or_else(|| json!({}));
            if let Some(scheduling) = scheduling {
                merged["scheduling"] = scheduling.clone();
            }
            Some(merged)
        }
    }
}

#[cfg(test)]
mod tests;
