//! How a binding comes to say what it should: the object to create, or the smallest patch of an existing one.
//!
//! Fields that the scheduler and other controllers write are never touched.

use berth_api::well_known::{PREEMPTIBLE, PREEMPTIBLE_COPIED};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::claim::Claim;
use super::desired_binding::DesiredBinding;
use crate::binding_key::BindingKind;
use crate::merge_diff::merge_diff;

/// Fields of the spec that the detector decides on every binding.
const DECIDED: &[&str] = &[
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
/// Fields that an update of a ClusterResourceBinding leaves as they are, as Karmada does.
const DECIDED_IF_NAMESPACED: &[&str] = &[
    "propagateDeps",
    "schedulePriority",
    "workloadAffinityGroups",
];

/// The binding belongs to another object: usually to an older template of the same name, and garbage
/// collection has not come by yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "binding {binding} belongs to another object with UID {owner}; trying again when it is collected"
)]
pub struct OtherOwner {
    /// The binding.
    pub binding: String,
    /// The UID of its owner.
    pub owner: String,
}

/// The binding as it is created. `id` becomes its permanent id.
pub fn new_binding(desired: &DesiredBinding, id: &str) -> Value {
    let kind = desired.kind();
    let mut labels = desired.labels.clone();
    let id_label = match kind {
        BindingKind::Namespaced => berth_api::well_known::RESOURCE_BINDING_PERMANENT_ID,
        BindingKind::Cluster => berth_api::well_known::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    };
    labels.insert(id_label.to_owned(), json!(id));
    let mut metadata = json!({
        "name": desired.key.name,
        "labels": labels,
        "annotations": desired.annotations,
        "finalizers": [kind.finalizer()],
        "ownerReferences": [desired.owner],
    });
    if kind == BindingKind::Namespaced {
        metadata["namespace"] = json!(desired.key.namespace);
    }
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": kind.name(),
        "metadata": metadata,
        "spec": desired.spec,
    })
}

/// The merge patch that makes an existing binding say what it should; nothing where it does.
///
/// # Errors
/// When the binding belongs to another object.
pub fn change(
    existing: &DynamicObject,
    desired: &DesiredBinding,
) -> Result<Option<Value>, OtherOwner> {
    let meta = &existing.metadata;
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    if let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true))
        && owner.uid != desired.owner_uid
    {
        return Err(OtherOwner {
            binding: desired.key.name.clone(),
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
    drop_cluster_claim(
        existing,
        desired,
        &mut label_changes,
        &mut annotation_changes,
    );
    if !desired.annotations.contains_key(PREEMPTIBLE) {
        drop_copied(existing, &mut annotation_changes);
    }
    if !label_changes.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(label_changes));
    }
    if !annotation_changes.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotation_changes));
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    let own = desired.kind().finalizer();
    // Nothing can be added to an object that is being deleted.
    if meta.deletion_timestamp.is_none() && !finalizers.iter().any(|known| known == own) {
        finalizers.push(own.to_owned());
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

/// Whether two states of a binding differ in a field of the spec that the detector has a say in.
pub fn are_decided_otherwise(before: &DynamicObject, now: &DynamicObject) -> bool {
    let mut fields = DECIDED
        .iter()
        .chain(DECIDED_IF_NAMESPACED)
        .chain(&["suspension"]);

    fields.any(|name| decided(before, name) != decided(now, name))
}

fn decided<'a>(binding: &'a DynamicObject, field: &str) -> Option<&'a Value> {
    binding.data.get("spec")?.get(field)
}

/// Whether a patch changes nothing but the version of the template that the binding speaks of.
pub fn is_version_alone(patch: &Value) -> bool {
    let only = |value: &Value, field: &str| -> Option<Value> {
        let fields = value.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(field).cloned()
    };
    only(patch, "spec")
        .and_then(|spec| only(&spec, "resource"))
        .and_then(|resource| only(&resource, "resourceVersion"))
        .is_some()
}

/// The metadata of a merge patch that takes the claim of a policy back, and what was copied with it.
pub fn release(claim: &Claim, existing: &DynamicObject) -> Value {
    let mut patch = claim.release_patch();
    if let Some(annotations) = patch["annotations"].as_object_mut() {
        drop_copied(existing, annotations);
    }
    patch
}

/// Takes away what was copied from a policy; what others have annotated stays.
fn drop_copied(existing: &DynamicObject, changes: &mut Map<String, Value>) {
    let mut annotations = existing.metadata.annotations.iter().flatten();
    if annotations.any(|(key, _)| key == PREEMPTIBLE_COPIED) {
        for key in [PREEMPTIBLE, PREEMPTIBLE_COPIED] {
            changes.insert(key.to_owned(), Value::Null);
        }
    }
}

/// A binding of a PropagationPolicy carries no claim of a ClusterPropagationPolicy.
fn drop_cluster_claim(
    existing: &DynamicObject,
    desired: &DesiredBinding,
    labels: &mut Map<String, Value>,
    annotations: &mut Map<String, Value>,
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
        labels.insert(
            CLUSTER_PROPAGATION_POLICY_PERMANENT_ID.to_owned(),
            Value::Null,
        );
    }
    if has(
        &existing.metadata.annotations,
        CLUSTER_PROPAGATION_POLICY_NAME,
    ) {
        annotations.insert(CLUSTER_PROPAGATION_POLICY_NAME.to_owned(), Value::Null);
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
        BindingKind::Namespaced => DECIDED_IF_NAMESPACED,
        BindingKind::Cluster => &[],
    };
    let mut target = stored.clone();
    for field in DECIDED.iter().chain(namespaced) {
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

/// The policy's suspension, with the binding's own `scheduling` kept.
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
mod tests {
    use super::super::claim::{PolicyKey, PolicyKind};
    use super::*;
    use crate::binding_key::BindingKey;

    fn desired(namespace: &str, spec: &Value) -> DesiredBinding {
        let map = |value: Value| value.as_object().cloned().unwrap();
        DesiredBinding {
            key: BindingKey {
                namespace: namespace.to_owned(),
                name: "web-deployment".to_owned(),
            },
            owner_uid: "u".to_owned(),
            owner: json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u",
                "controller": true, "blockOwnerDeletion": true}),
            labels: map(json!({"propagationpolicy.karmada.io/permanent-id": "p"})),
            annotations: map(json!({"propagationpolicy.karmada.io/name": "p"})),
            spec: map(spec.clone()),
            interpreted: true,
        }
    }

    /// The patch that turns a binding with the first spec, and more besides, into one with the second.
    fn patch(namespace: &str, stored: &Value, more: &Value, wanted: &Value) -> Option<Value> {
        let mut binding = new_binding(&desired(namespace, stored), "id");
        for (field, value) in more.as_object().unwrap() {
            binding["spec"][field] = value.clone();
        }
        let binding = serde_json::from_value(binding).unwrap();
        change(&binding, &desired(namespace, wanted)).unwrap()
    }

    #[test]
    fn a_version_alone_is_told_from_other_changes() {
        let version = json!({ "resourceVersion": "2" });
        for (patch, alone) in [
            (json!({ "spec": { "resource": version } }), true),
            (
                json!({ "spec": { "resource": version, "replicas": 1 } }),
                false,
            ),
            (
                json!({ "spec": { "resource": { "resourceVersion": "2", "uid": "u" } } }),
                false,
            ),
            (
                json!({ "spec": { "resource": version }, "metadata": {} }),
                false,
            ),
            (json!({ "metadata": { "labels": {} } }), false),
        ] {
            assert_eq!(is_version_alone(&patch), alone, "{patch}");
        }
    }

    #[test]
    fn nothing_is_written_where_nothing_differs() {
        let spec = json!({"placement": {"clusterAffinity": {}}, "replicas": 2});
        let others = json!({"clusters": [{"name": "m1"}], "requiredBy": []});
        for namespace in ["default", ""] {
            assert_eq!(patch(namespace, &spec, &others, &spec), None);
        }
    }

    #[test]
    fn what_the_policy_and_the_template_decide_is_replaced_as_a_whole() {
        assert_eq!(
            patch(
                "default",
                &json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}, "replicas": 2}),
                &json!({"clusters": [{"name": "m1"}]}),
                &json!({"placement": {"spreadConstraints": []}}),
            ),
            Some(json!({"spec": {
                "placement": {"clusterAffinity": null, "spreadConstraints": []}, "replicas": null}}))
        );
    }

    #[test]
    fn an_update_of_a_cluster_binding_leaves_out_what_karmada_leaves_out() {
        let wanted =
            json!({"propagateDeps": true, "schedulePriority": {"priority": 1}, "replicas": 1});
        assert_eq!(
            patch("", &json!({}), &json!({}), &wanted),
            Some(json!({"spec": {"replicas": 1}}))
        );
        assert_eq!(
            patch("default", &json!({}), &json!({}), &wanted),
            Some(json!({ "spec": wanted }))
        );
    }

    #[test]
    fn the_bindings_own_suspension_of_scheduling_stays() {
        let own = json!({"suspension": {"dispatching": true, "scheduling": true}});
        for (wanted, change) in [
            (json!({}), Some(json!({"dispatching": null}))),
            (json!({"suspension": {"dispatching": true}}), None),
            (
                json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
                Some(
                    json!({"dispatching": null, "dispatchingOnClusters": {"clusterNames": ["m1"]}}),
                ),
            ),
        ] {
            let change = change.map(|change| json!({"spec": {"suspension": change}}));
            assert_eq!(
                patch("default", &json!({}), &own, &wanted),
                change,
                "{wanted}"
            );
        }
    }

    #[test]
    fn the_binding_of_another_object_is_left_alone() {
        let mut other = desired("default", &json!({}));
        other.owner["uid"] = json!("old");
        let stored = serde_json::from_value(new_binding(&other, "id")).unwrap();
        let refusal = change(&stored, &desired("default", &json!({}))).unwrap_err();
        assert_eq!(refusal.owner, "old");
    }

    #[test]
    fn what_was_copied_from_a_policy_goes_with_it_and_what_others_wrote_stays() {
        let (spares, copied) = (
            "scheduling.berth/preemptible",
            "scheduling.berth/preemptible-copied",
        );
        let both = json!({ spares: null, copied: null });
        for (annotations, expected) in [
            (json!({ spares: "false", copied: "true" }), Some(&both)),
            (json!({ spares: "false" }), None),
        ] {
            let plain = desired("default", &json!({}));
            let mut stored = new_binding(&plain, "id");
            for (key, value) in annotations.as_object().unwrap() {
                stored["metadata"]["annotations"][key] = value.clone();
            }
            let stored = serde_json::from_value(stored).unwrap();
            let patch = change(&stored, &plain).unwrap();
            assert_eq!(
                patch,
                expected.map(|gone| json!({ "metadata": { "annotations": gone } }))
            );
            let claim = Claim {
                policy: PolicyKey {
                    kind: PolicyKind::Namespaced,
                    namespace: "default".to_owned(),
                    name: "p".to_owned(),
                },
                id: "p".to_owned(),
            };
            let released = release(&claim, &stored);
            let annotations = released["annotations"].as_object().unwrap();
            assert_eq!(annotations.contains_key(spares), expected.is_some());
        }
    }

    #[test]
    fn a_claim_of_a_propagation_policy_takes_the_place_of_the_other_kind() {
        let mut stored = new_binding(&desired("default", &json!({})), "id");
        let id = "clusterpropagationpolicy.karmada.io/permanent-id";
        stored["metadata"]["labels"] = json!({id: "c", "kept": "yes"});
        stored["metadata"]["annotations"] =
            json!({"clusterpropagationpolicy.karmada.io/name": "c"});
        stored["metadata"]["finalizers"] = json!(["other"]);
        let stored = serde_json::from_value(stored).unwrap();
        assert_eq!(
            change(&stored, &desired("default", &json!({}))).unwrap(),
            Some(json!({"metadata": {
                "labels": {id: null, "propagationpolicy.karmada.io/permanent-id": "p"},
                "annotations": {"clusterpropagationpolicy.karmada.io/name": null,
                    "propagationpolicy.karmada.io/name": "p"},
                "finalizers": ["other", "karmada.io/binding-controller"],
            }}))
        );
    }
}
