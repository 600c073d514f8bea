use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;

fn record(name: &str, labels: Value, annotation: Option<&str>, spec: Value) -> Arc<Record> {
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
    Arc::new(Record::read(&object).unwrap())
}

fn followed(name: &str, annotation: Option<&str>) -> Arc<Record> {
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
    object_in(place_of(&named(name)), name)
}

fn object(name: &str, labels: Value, data: &str) -> Object {
    let object: DynamicObject = serde_json::from_value(json!({ "metadata": { "name": name,
        "namespace": "shop", "uid": "u", "labels": labels }, "data": data }))
    .unwrap();
    Object::read(&object)
}

fn followers(index: &Index, name: &str) -> Vec<String> {
    let situation = index.situation(&key(name)).unwrap();
    situation
        .followed
        .into_values()
        .map(|record| record.resource.name.clone())
        .collect()
}

#[test]
fn an_object_is_named_by_name_or_by_labels() {
    let mut index = Index::default();
    let (web, api) = (followed("web", None), followed("api", None));
    index.keep_binding(Arc::clone(&web));
    index.keep_binding(Arc::clone(&api));
    index.names(&web.key, vec![named("settings"), named("other")]);
    index.names(&api.key, vec![selecting("api")]);
    assert!(
        index.situation(&key("settings")).is_none(),
        "the kind is not known yet"
    );
    index.listed.insert(key("settings").kind);
    assert_eq!(followers(&index, "settings"), ["web"]);
    assert!(index.keep_object(
        &key("settings"),
        object("settings", json!({ "app": "api" }), "1")
    ));
    assert_eq!(followers(&index, "settings"), ["api", "web"]);
    assert_eq!(index.named_by(&api.key), [key("settings")]);
    assert_eq!(index.named_by(&web.key), [key("settings"), key("other")]);
    index.names(&web.key, vec![named("other")]);
    assert_eq!(followers(&index, "settings"), ["api"]);
    index.forget_object(&key("settings"));
    assert_eq!(followers(&index, "settings"), [""; 0]);
    index.forget_binding(&api.key);
    assert!(!index.concerns(&key("settings")));
}

#[test]
fn an_object_that_says_the_same_keeps_its_version() {
    let mut index = Index::default();
    assert!(index.keep_object(&key("a"), object("a", json!({}), "1")));
    assert!(!index.keep_object(&key("a"), object("a", json!({}), "1")));
    assert!(index.keep_object(&key("a"), object("a", json!({}), "2")));
    assert!(index.keep_object(&key("a"), object("a", json!({ "app": "x" }), "2")));
}

#[test]
fn what_was_noted_counts_until_somebody_looks() {
    let mut index = Index::default();
    let noted = serde_json::to_string(&[named("settings")]).unwrap();
    let web = followed("web", Some(&noted));
    index.keep_binding(Arc::clone(&web));
    assert_eq!(index.named_by(&web.key), [key("settings")]);
    // Without a note nobody who follows it is sent away.
    let api = followed("api", None);
    index.keep_binding(Arc::clone(&api));
    let label = label_of(&api.key);
    let mut attached = (*record("x", json!({ label.clone(): "api" }), None, json!({}))).clone();
    attached.key = key("lonely").binding();
    index.keep_binding(Arc::new(attached));
    let situation = index.situation(&key("lonely")).unwrap();
    assert_eq!(situation.unexplored, BTreeSet::from([label]));
    assert_eq!(index.attached_to(&api.key).count(), 1);
    index.names(&api.key, Vec::new());
    let situation = index.situation(&key("lonely")).unwrap();
    assert!(situation.unexplored.is_empty());
}

#[test]
fn who_is_not_followed_names_nothing() {
    let mut index = Index::default();
    let noted = serde_json::to_string(&[named("settings")]).unwrap();
    let web = followed("web", Some(&noted));
    index.keep_binding(Arc::clone(&web));
    let mut left = (*web).clone();
    left.propagates = false;
    assert_eq!(left.role(), Role::Left);
    index.keep_binding(Arc::new(left));
    assert!(!index.concerns(&key("settings")));
    let mut alone = (*followed("api", None)).clone();
    alone.clusters.clear();
    assert_eq!(alone.role(), Role::Alone, "it was never scheduled");
}
