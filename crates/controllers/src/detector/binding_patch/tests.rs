use berth_api::BindingKey;

use super::*;
use crate::detector::claim::{PolicyKey, PolicyKind};
use crate::detector::desired_binding::Interpreted;

fn desired(namespace: &str, spec: &Value) -> DesiredBinding {
    let map = |value: Value| value.as_object().cloned().unwrap();
    DesiredBinding {
        key: BindingKey::new(namespace, "web-deployment"),
        owner_uid: "u".to_owned(),
        owner: json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u",
            "controller": true, "blockOwnerDeletion": true}),
        labels: map(json!({"propagationpolicy.karmada.io/permanent-id": "p"})),
        annotations: map(json!({"propagationpolicy.karmada.io/name": "p"})),
        spec: map(spec.clone()),
        interpreted: Interpreted::Replicas,
    }
}

/// Creates a binding with the spec fields `stored` and `more`. Returns the patch for the desired spec `wanted`.
fn patch(namespace: &str, stored: &Value, more: &Value, wanted: &Value) -> Option<Value> {
    let mut binding = new_binding(&desired(namespace, stored), "id");
    for (field, value) in more.as_object().unwrap() {
        binding["spec"][field] = value.clone();
    }
    let binding = serde_json::from_value(binding).unwrap();
    binding_patch(&binding, &desired(namespace, wanted)).unwrap()
}

#[test]
fn a_patch_of_only_the_template_version_is_recognized() {
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
        assert_eq!(changes_only_version(&patch), alone, "{patch}");
    }
}

#[test]
fn equal_bindings_need_no_patch() {
    let spec = json!({"placement": {"clusterAffinity": {}}, "replicas": 2});
    let others = json!({"clusters": [{"name": "m1"}], "requiredBy": []});
    for namespace in ["default", ""] {
        assert_eq!(patch(namespace, &spec, &others, &spec), None);
    }
}

#[test]
fn detector_fields_are_replaced_as_a_whole() {
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
fn an_update_of_a_cluster_binding_omits_the_namespaced_fields() {
    let wanted = json!({"propagateDeps": true, "schedulePriority": {"priority": 1}, "replicas": 1});
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
fn the_suspension_of_scheduling_is_kept() {
    let own = json!({"suspension": {"dispatching": true, "scheduling": true}});
    for (wanted, change) in [
        (json!({}), Some(json!({"dispatching": null}))),
        (json!({"suspension": {"dispatching": true}}), None),
        (
            json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
            Some(json!({"dispatching": null, "dispatchingOnClusters": {"clusterNames": ["m1"]}})),
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
fn the_binding_of_another_object_is_not_changed() {
    let mut other = desired("default", &json!({}));
    other.owner["uid"] = json!("old");
    let stored = serde_json::from_value(new_binding(&other, "id")).unwrap();
    let refusal = binding_patch(&stored, &desired("default", &json!({}))).unwrap_err();
    assert_eq!(refusal.owner, "old");
}

#[test]
fn the_limits_of_migrations_follow_the_policy() {
    let mut limited = desired("default", &json!({}));
    let limit = ("migration.berth/max-moving".to_owned(), json!("1"));
    limited.annotations.extend([limit]);
    let stored = serde_json::from_value(new_binding(&limited, "id")).unwrap();
    assert_eq!(binding_patch(&stored, &limited).unwrap(), None);
    let patch = binding_patch(&stored, &desired("default", &json!({}))).unwrap();
    let gone = json!({ "metadata": { "annotations": { "migration.berth/max-moving": null } } });
    assert_eq!(patch, Some(gone));
}

#[test]
fn only_copied_annotations_are_removed() {
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
        let patch = binding_patch(&stored, &plain).unwrap();
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
        let released = release_metadata(&claim, &stored);
        let annotations = released["annotations"].as_object().unwrap();
        assert_eq!(annotations.contains_key(spares), expected.is_some());
    }
}

#[test]
fn the_claim_of_a_propagation_policy_replaces_that_of_a_cluster_policy() {
    let mut stored = new_binding(&desired("default", &json!({})), "id");
    let id = "clusterpropagationpolicy.karmada.io/permanent-id";
    stored["metadata"]["labels"] = json!({id: "c", "kept": "yes"});
    stored["metadata"]["annotations"] = json!({"clusterpropagationpolicy.karmada.io/name": "c"});
    stored["metadata"]["finalizers"] = json!(["other"]);
    let stored = serde_json::from_value(stored).unwrap();
    assert_eq!(
        binding_patch(&stored, &desired("default", &json!({}))).unwrap(),
        Some(json!({"metadata": {
            "labels": {id: null, "propagationpolicy.karmada.io/permanent-id": "p"},
            "annotations": {"clusterpropagationpolicy.karmada.io/name": null,
                "propagationpolicy.karmada.io/name": "p"},
            "finalizers": ["other", "karmada.io/binding-controller"],
        }}))
    );
}

#[test]
fn the_queue_name_is_removed_with_that_of_the_template() {
    let mut stored = desired("default", &json!({}));
    let queue = QUEUE_NAME.to_owned();
    stored.labels.insert(queue, json!("red"));
    let binding = serde_json::from_value(new_binding(&stored, "id")).unwrap();
    assert_eq!(binding_patch(&binding, &stored).unwrap(), None);
    let patch = binding_patch(&binding, &desired("default", &json!({})));
    let removed = json!({ "metadata": { "labels": { QUEUE_NAME: null } } });
    assert_eq!(patch.unwrap(), Some(removed));
}
