use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;

fn record(name: &str, labels: Value, annotation: Option<&str>, spec: Value) -> Arc<BindingRecord> {
    let mut whole = json!({ "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
        "namespace": "shop", "name": name } });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let mut metadata =
        json!({ "name": format!("{name}-deployment"), "namespace": "shop", "labels": labels });
    if let Some(annotation) = annotation {
        metadata["annotations"] = json!({ "resourcebinding.karmada.io/dependencies": annotation });
        metadata["finalizers"] = json!(["karmada.io/binding-dependencies-distributor"]);
    }
    let object: DynamicObject =
        serde_json::from_value(json!({ "metadata": metadata, "spec": whole })).unwrap();
    Arc::new(BindingRecord::read(&object).unwrap())
}

fn independent(name: &str, annotation: Option<&str>) -> Arc<BindingRecord> {
    let labels = json!({ "resourcebinding.karmada.io/permanent-id": name });
    let spec = json!({ "propagateDeps": true, "clusters": [{ "name": "m1" }] });
    record(name, labels, annotation, spec)
}

fn named(name: &str) -> DependentObjectReference {
    serde_json::from_value(
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": name }),
    )
    .unwrap()
}

fn selecting(label: &str) -> DependentObjectReference {
    serde_json::from_value(
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop",
        "labelSelector": { "matchLabels": { "app": label } } }),
    )
    .unwrap()
}

fn key(name: &str) -> ObjectKey {
    object_in(kind_of(&named(name)), name)
}

fn object(name: &str, labels: Value, data: &str) -> Object {
    let object: DynamicObject = serde_json::from_value(json!({ "metadata": { "name": name,
        "namespace": "shop", "uid": "u", "labels": labels }, "data": data }))
    .unwrap();
    Object::read(&object)
}

fn independent_of(index: &Index, name: &str) -> Vec<String> {
    let input = index.attachment_input(&key(name)).unwrap();
    input
        .independent
        .into_values()
        .map(|record| record.resource.name.clone())
        .collect()
}

#[test]
fn dependencies_are_found_by_name_and_by_labels() {
    let mut index = Index::default();
    let (web, api) = (independent("web", None), independent("api", None));
    index.put_binding(Arc::clone(&web));
    index.put_binding(Arc::clone(&api));
    index.set_dependencies(&web.key, vec![named("settings"), named("other")]);
    index.set_dependencies(&api.key, vec![selecting("api")]);
    assert!(
        index.attachment_input(&key("settings")).is_none(),
        "the kind is not listed yet"
    );
    index.listed.insert(key("settings").kind);
    assert_eq!(independent_of(&index, "settings"), ["web"]);
    assert!(index.put_object(
        &key("settings"),
        object("settings", json!({ "app": "api" }), "1")
    ));
    assert_eq!(independent_of(&index, "settings"), ["api", "web"]);
    assert_eq!(index.dependencies_of(&api.key), [key("settings")]);
    assert_eq!(
        index.dependencies_of(&web.key),
        [key("settings"), key("other")]
    );
    index.set_dependencies(&web.key, vec![named("other")]);
    assert_eq!(independent_of(&index, "settings"), ["api"]);
    index.remove_object(&key("settings"));
    assert_eq!(independent_of(&index, "settings"), [""; 0]);
    index.remove_binding(&api.key);
    assert!(!index.is_relevant(&key("settings")));
}

#[test]
fn put_object_reports_whether_the_content_changed() {
    let mut index = Index::default();
    assert!(index.put_object(&key("a"), object("a", json!({}), "1")));
    assert!(!index.put_object(&key("a"), object("a", json!({}), "1")));
    assert!(index.put_object(&key("a"), object("a", json!({}), "2")));
    assert!(index.put_object(&key("a"), object("a", json!({ "app": "x" }), "2")));
}

#[test]
fn dependencies_come_from_the_annotation_or_are_unresolved_until_they_are_set() {
    let mut index = Index::default();
    let stored = serde_json::to_string(&[named("settings")]).unwrap();
    let web = independent("web", Some(&stored));
    index.put_binding(Arc::clone(&web));
    assert_eq!(index.dependencies_of(&web.key), [key("settings")]);
    // A binding without the annotation remains unresolved until its dependencies are set.
    let api = independent("api", None);
    index.put_binding(Arc::clone(&api));
    let label = reference_label(&api.key);
    let mut attached = (*record("x", json!({ label.clone(): "api" }), None, json!({}))).clone();
    attached.key = key("lonely").binding();
    index.put_binding(Arc::new(attached));
    let input = index.attachment_input(&key("lonely")).unwrap();
    assert_eq!(input.unresolved, BTreeSet::from([label]));
    assert_eq!(index.attached_to(&api.key).count(), 1);
    index.set_dependencies(&api.key, Vec::new());
    let input = index.attachment_input(&key("lonely")).unwrap();
    assert!(input.unresolved.is_empty());
}

#[test]
fn only_independent_bindings_have_dependencies() {
    let mut index = Index::default();
    let stored = serde_json::to_string(&[named("settings")]).unwrap();
    let web = independent("web", Some(&stored));
    index.put_binding(Arc::clone(&web));
    let mut detaching = (*web).clone();
    detaching.propagates = false;
    assert_eq!(detaching.role(), Role::Detaching);
    index.put_binding(Arc::new(detaching));
    assert!(!index.is_relevant(&key("settings")));
    let mut unscheduled = (*independent("api", None)).clone();
    unscheduled.clusters.clear();
    assert_eq!(
        unscheduled.role(),
        Role::Unrelated,
        "the binding was never scheduled"
    );
}
