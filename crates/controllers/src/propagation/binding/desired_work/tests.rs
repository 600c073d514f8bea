use kube::api::DynamicObject;

use super::super::decode;
use super::*;

fn binding(spec: Value) -> Binding {
    let mut object = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop",
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb-1"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    decode(&object).unwrap()
}

fn template(annotations: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop",
        "uid": "t-1", "generation": 4, "resourceVersion": "9", "annotations": annotations},
        "spec": {"replicas": 5}, "status": {"replicas": 1}})
}

fn work(binding: &Binding, template: &Value, replicas: i32) -> DesiredWork {
    let cluster: Cluster =
        serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}}))
            .unwrap();
    let target = TargetCluster {
        name: "m1".to_owned(),
        replicas,
        ..TargetCluster::default()
    };
    let (work, _) = desired_work(
        binding,
        template,
        &target,
        None,
        &OverrideSet::default(),
        &cluster,
        &Interpreter::default(),
    )
    .unwrap();
    work
}

#[test]
fn a_work_names_its_binding_and_has_the_replicas_of_its_cluster() {
    let work = work(
        &binding(json!({"replicas": 5})),
        &template(json!({"mine": "1"})),
        2,
    );
    assert_eq!(
        (work.namespace().as_str(), work.name.as_str()),
        (
            "karmada-es-m1",
            names::work_name("Deployment", "web", "shop").as_str()
        )
    );
    assert_eq!(
        json!(work.labels),
        json!({"resourcebinding.karmada.io/permanent-id": "rb-1"})
    );
    assert_eq!(
        json!(work.annotations),
        json!({
        "resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "web-deployment",
        "work.karmada.io/conflict-resolution": "abort"})
    );
    assert_eq!(
        work.manifest,
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop",
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb-1", "karmada.io/managed": "true"},
            "annotations": {"mine": "1",
                "resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "web-deployment",
                "resourcetemplate.karmada.io/uid": "t-1", "resourcetemplate.karmada.io/generation": "4",
                "work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": work.name,
                "work.karmada.io/conflict-resolution": "abort"}},
        "spec": {"replicas": 2}})
    );
    assert!(!work.suspended && !work.preserved);
}

#[test]
fn replicas_of_a_template_without_scheduled_replicas_stay() {
    assert_eq!(
        work(&binding(json!({})), &template(json!({})), 0).manifest["spec"]["replicas"],
        5
    );
}

#[test]
fn the_conflict_resolution_of_the_template_wins_over_the_policy() {
    for (annotation, policy, expected) in [
        (None, "Abort", "abort"),
        (None, "Overwrite", "overwrite"),
        (Some("abort"), "Overwrite", "abort"),
        (Some("overwrite"), "Abort", "overwrite"),
        (Some("nonsense"), "Overwrite", "overwrite"),
    ] {
        let annotations =
            annotation.map_or_else(|| json!({}), |a| json!({(CONFLICT_RESOLUTION): a}));
        let work = work(
            &binding(json!({"conflictResolution": policy})),
            &template(annotations),
            0,
        );
        assert_eq!(work.annotations[CONFLICT_RESOLUTION], expected);
        assert_eq!(
            work.manifest["metadata"]["annotations"][CONFLICT_RESOLUTION],
            expected
        );
    }
}

#[test]
fn completions_are_divided_only_with_divided_replicas() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"completions": 4}});
    let target = |name: &str| TargetCluster {
        name: name.to_owned(),
        replicas: 1,
        ..TargetCluster::default()
    };
    let targets = [target("a"), target("b")];
    let divided = json!({"replicas": 2, "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}});
    let parts = divided_completions(&binding(divided), &job, &targets, &BTreeMap::new());
    assert_eq!(json!(parts), json!({"a": 2, "b": 2}));
    let duplicated = binding(json!({"replicas": 2, "placement": {}}));
    assert!(divided_completions(&duplicated, &job, &targets, &BTreeMap::new()).is_empty());
}
