use kube::api::DynamicObject;

use super::*;
use crate::dependencies::record::ObjectKind;

fn read(object: Value) -> BindingRecord {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    BindingRecord::read(&object).unwrap()
}

/// Returns an independent binding with these clusters. `more` contains further fields of the spec.
fn independent(name: &str, clusters: Value, more: Value) -> BindingRecord {
    let mut spec = json!({ "propagateDeps": true, "clusters": clusters, "placement": {},
        "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name } });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    read(
        json!({ "metadata": { "name": format!("{name}-deployment"), "namespace": "shop",
        "labels": { (RESOURCE_BINDING_PERMANENT_ID): format!("id-{name}") } }, "spec": spec }),
    )
}

fn object(version: &str) -> Object {
    let object: DynamicObject = serde_json::from_value(json!({ "metadata": {
        "name": "settings", "namespace": "shop", "uid": "u-1", "resourceVersion": version } }))
    .unwrap();
    Object::read(&object)
}

fn input(existing: Option<BindingRecord>, parents: &[&BindingRecord]) -> AttachmentInput {
    let with_key = |record: &&BindingRecord| (record.key.clone(), Arc::new((*record).clone()));
    AttachmentInput {
        key: ObjectKey {
            kind: ObjectKind {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
            },
            namespace: "shop".to_owned(),
            name: "settings".to_owned(),
        },
        object: Some(object("7")),
        existing: existing.map(Arc::new),
        independent: parents.iter().map(with_key).collect(),
        unresolved: BTreeSet::new(),
        referenced: BTreeMap::new(),
    }
}

/// Returns the binding after a plan was applied.
fn applied(existing: Option<&Value>, plan: &Plan) -> Value {
    match plan.write.clone() {
        None => existing.unwrap().clone(),
        Some(Write::Create(binding)) => binding,
        Some(Write::Patch(patch)) => {
            let mut stored = existing.unwrap().clone();
            merge(&mut stored, &patch);
            stored
        }
    }
}

/// Applies a merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    for (field, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(field);
        } else {
            merge(&mut target[field], value);
        }
    }
}

fn label(name: &str) -> String {
    reference_label(&BindingKey::new("shop", &format!("{name}-deployment")))
}

#[test]
fn a_dependency_gets_a_binding_that_lists_its_independent_bindings() {
    let web = independent(
        "web",
        json!([{ "name": "m1", "replicas": 2 }]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let plan = plan(&input(None, &[&web]));
    assert_eq!(plan.synced, std::slice::from_ref(&web.key));
    assert_eq!(
        applied(None, &plan),
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": { "name": "settings-configmap", "namespace": "shop",
                "labels": { (label("web")): "id-web" },
                "finalizers": ["karmada.io/binding-controller"],
                "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "settings",
                    "uid": "u-1", "controller": true, "blockOwnerDeletion": true }] },
            "spec": {
                "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop",
                    "name": "settings", "uid": "u-1", "resourceVersion": "7" },
                "requiredBy": [{ "namespace": "shop", "name": "web-deployment",
                    "clusters": [{ "name": "m1", "replicas": 2 }] }],
                "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true },
        })
    );
}

#[test]
fn missing_terminating_and_unneeded_objects_get_no_binding() {
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let mut absent = input(None, &[&web]);
    absent.object = None;
    let mut terminating = input(None, &[&web]);
    terminating.object.as_mut().unwrap().deleting = true;
    for input in [absent, terminating, input(None, &[])] {
        assert_eq!(plan(&input), Plan::default());
    }
}

#[test]
fn the_attached_binding_follows_its_independent_bindings() {
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let mut stored = applied(None, &plan(&input(None, &[&web])));
    let after = |stored: &Value, parents: &[&BindingRecord]| {
        let plan = plan(&input(Some(read(stored.clone())), parents));
        (applied(Some(stored), &plan), plan)
    };
    // The attached binding is up to date.
    assert_eq!(after(&stored, &[&web]).1, Plan::default());
    // The independent binding moves to another cluster.
    let moved = independent("web", json!([{ "name": "m2", "new": 1 }]), json!({}));
    let synced;
    (stored, Plan { synced, .. }) = after(&stored, &[&moved]);
    assert_eq!(synced, std::slice::from_ref(&web.key));
    let clusters = &stored["spec"]["requiredBy"][0]["clusters"];
    assert_eq!(*clusters, json!([{ "name": "m2", "new": 1 }]));
    // A second independent binding with other settings depends on the object.
    let api = independent(
        "api",
        json!([]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let (both, joined) = after(&stored, &[&api, &moved]);
    assert_eq!(joined.synced, std::slice::from_ref(&api.key));
    assert_eq!(
        joined.conflict.message().unwrap(),
        "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); \
         PreserveResourcesOnDeletion conflicted (true vs false)."
    );
    assert_eq!(both["spec"]["conflictResolution"], "Overwrite");
    assert_eq!(both["spec"]["preserveResourcesOnDeletion"], true);
    let names = |stored: &Value| -> Vec<Value> {
        let entries = stored["spec"]["requiredBy"].as_array().cloned();
        let entries = entries.unwrap_or_default().into_iter();
        entries.map(|entry| entry["name"].clone()).collect()
    };
    assert_eq!(names(&both), ["web-deployment", "api-deployment"]);
    assert_eq!(both["spec"]["requiredBy"][1].get("clusters"), None);
    // The first independent binding no longer depends on the object.
    let (one, _) = after(&both, &[&api]);
    assert_eq!(names(&one), ["api-deployment"]);
    assert_eq!(
        one["metadata"]["labels"],
        json!({ (label("api")): "id-api" })
    );
    // No independent binding depends on the object any more.
    let (none, last) = after(&one, &[]);
    assert!(last.synced.is_empty());
    assert_eq!(none["metadata"]["labels"], json!({}));
    assert_eq!(
        none["spec"],
        json!({ "resource": stored["spec"]["resource"] })
    );
    assert_eq!(after(&none, &[]).1, Plan::default());
}

#[test]
fn changes_of_the_object_reach_its_attached_binding() {
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let stored = applied(None, &plan(&input(None, &[&web])));
    let mut input = input(Some(read(stored.clone())), &[&web]);
    input.object = Some(object("9"));
    let stored = applied(Some(&stored), &plan(&input));
    assert_eq!(stored["spec"]["resource"]["resourceVersion"], "9");
}

#[test]
fn the_policy_fields_of_a_binding_with_a_placement_are_not_changed() {
    let web = independent(
        "web",
        json!([{ "name": "m1" }]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let stored = json!({ "metadata": { "name": "settings-configmap", "namespace": "shop",
            "labels": { "other": "label" } },
        "spec": { "placement": {}, "clusters": [{ "name": "m3" }], "conflictResolution": "Abort",
            "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings",
                "uid": "u-1", "resourceVersion": "1" } } });
    let joined = plan(&input(Some(read(stored.clone())), &[&web]));
    let Some(Write::Patch(patch)) = &joined.write else {
        panic!("{joined:?}")
    };
    assert_eq!(
        *patch,
        json!({ "metadata": { "labels": { (label("web")): "id-web" } },
            "spec": { "requiredBy": [{ "namespace": "shop", "name": "web-deployment",
                "clusters": [{ "name": "m1" }] }] } })
    );
    let both = applied(Some(&stored), &joined);
    let left = plan(&input(Some(read(both.clone())), &[]));
    assert_eq!(applied(Some(&both), &left), stored);
}

#[test]
fn snapshots_by_other_controllers_are_kept() {
    let by_hand = json!({ "metadata": { "name": "settings-configmap", "namespace": "shop", "labels": {} },
        "spec": { "requiredBy": [{ "namespace": "shop", "name": "mine", "clusters": [{ "name": "m9" }] }],
            "conflictResolution": "Overwrite",
            "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings",
                "uid": "u-1", "resourceVersion": "7" } } });
    let record = || Some(read(by_hand.clone()));
    assert_eq!(plan(&input(record(), &[])), Plan::default());
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let joined = applied(Some(&by_hand), &plan(&input(record(), &[&web])));
    let left = plan(&input(Some(read(joined.clone())), &[]));
    let left = applied(Some(&joined), &left);
    assert_eq!(left["spec"]["requiredBy"], by_hand["spec"]["requiredBy"]);
}

#[test]
fn nothing_is_detached_before_dependencies_are_resolved() {
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let stored = applied(None, &plan(&input(None, &[&web])));
    let mut early = input(Some(read(stored)), &[]);
    early.unresolved.insert(label("web"));
    early.referenced.insert(web.key.clone(), Arc::new(web));
    assert_eq!(plan(&early), Plan::default());
}

#[test]
fn bindings_of_other_objects_and_terminating_bindings_are_not_changed() {
    let web = independent("web", json!([{ "name": "m1" }]), json!({}));
    let stored = applied(None, &plan(&input(None, &[&web])));
    let mut older = stored.clone();
    older["metadata"]["ownerReferences"][0]["uid"] = json!("u-0");
    let mut other = stored.clone();
    other["spec"]["resource"]["apiVersion"] = json!("example.io/v1");
    let mut deleting = stored;
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for stored in [older, other, deleting] {
        let moved = independent("web", json!([{ "name": "m2" }]), json!({}));
        let plan = plan(&input(Some(read(stored)), &[&moved]));
        assert_eq!(plan, Plan::default());
    }
}

/// A dependency stays in a cluster as long as the cluster has a copy of the template: until an eviction ends, and while
/// dispatching to the cluster is suspended.
#[test]
fn a_dependency_stays_beside_a_remaining_copy_of_its_template() {
    let m1_and_m2 = json!([{ "name": "m1", "replicas": 1 }, { "name": "m2", "replicas": 2 }]);
    let web = independent("web", m1_and_m2, json!({}));
    let created = applied(None, &plan(&input(None, &[&web])));
    let task = |mode: &str| {
        json!({ "gracefulEvictionTasks": [{ "fromCluster": "m1", "replicas": 1, "purgeMode": mode,
            "reason": "R", "producer": "p" }] })
    };
    let suspended = |cluster: &str| {
        let clusters = json!({ "clusterNames": [cluster] });
        json!({ "suspension": { "dispatchingOnClusters": clusters } })
    };
    for (about, more, expected) in [
        ("evicted", task("Gracefully"), &["m2", "m1"][..]),
        ("purged", task("Directly"), &["m2"]),
        ("suspended", suspended("m1"), &["m2", "m1"]),
        ("another cluster suspended", suspended("m2"), &["m2"]),
        ("neither", json!({}), &["m2"]),
    ] {
        let only_m2 = json!([{ "name": "m2", "replicas": 3 }]);
        let web = independent("web", only_m2, more);
        let changed = plan(&input(Some(read(created.clone())), &[&web]));
        let changed = applied(Some(&created), &changed);
        let clusters = changed["spec"]["requiredBy"][0]["clusters"]
            .as_array()
            .unwrap();
        let names = clusters
            .iter()
            .map(|cluster| cluster["name"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{about}");
    }
}
