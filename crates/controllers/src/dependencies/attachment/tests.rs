use kube::api::DynamicObject;

use super::super::record::Kind;
use super::*;

fn read(object: Value) -> Record {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Record::read(&object).unwrap()
}

/// A followed binding with these clusters, and more in its spec.
fn followed(name: &str, clusters: Value, more: Value) -> Record {
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

fn situation(existing: Option<Record>, parents: &[&Record]) -> Situation {
    let by_name = |record: &&Record| (record.key.clone(), Arc::new((*record).clone()));
    Situation {
        key: ObjectKey {
            kind: Kind {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
            },
            namespace: "shop".to_owned(),
            name: "settings".to_owned(),
        },
        object: Some(object("7")),
        existing: existing.map(Arc::new),
        followed: parents.iter().map(by_name).collect(),
        unexplored: BTreeSet::new(),
        named: BTreeMap::new(),
    }
}

/// What is stored after a plan was carried out.
fn carried_out(existing: Option<&Value>, plan: &Plan) -> Value {
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

/// A merge patch, as servers do it.
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
    label_of(&BindingKey {
        namespace: "shop".to_owned(),
        name: format!("{name}-deployment"),
    })
}

#[test]
fn what_is_named_gets_a_binding_that_says_by_whom() {
    let web = followed(
        "web",
        json!([{ "name": "m1", "replicas": 2 }]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let plan = plan(&situation(None, &[&web]));
    assert_eq!(plan.informs, std::slice::from_ref(&web.key));
    assert_eq!(
        carried_out(None, &plan),
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
fn nothing_is_made_for_what_is_not_there_or_going_or_not_named() {
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let mut absent = situation(None, &[&web]);
    absent.object = None;
    let mut going = situation(None, &[&web]);
    going.object.as_mut().unwrap().deleting = true;
    for situation in [absent, going, situation(None, &[])] {
        assert_eq!(plan(&situation), Plan::default());
    }
}

#[test]
fn it_follows_and_is_left_and_whoever_wants_more_gets_it() {
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let mut stored = carried_out(None, &plan(&situation(None, &[&web])));
    let after = |stored: &Value, parents: &[&Record]| {
        let plan = plan(&situation(Some(read(stored.clone())), parents));
        (carried_out(Some(stored), &plan), plan)
    };
    // It is as it should be.
    assert_eq!(after(&stored, &[&web]).1, Plan::default());
    // Another place.
    let moved = followed("web", json!([{ "name": "m2", "new": 1 }]), json!({}));
    let informs;
    (stored, Plan { informs, .. }) = after(&stored, &[&moved]);
    assert_eq!(informs, std::slice::from_ref(&web.key));
    let clusters = &stored["spec"]["requiredBy"][0]["clusters"];
    assert_eq!(*clusters, json!([{ "name": "m2", "new": 1 }]));
    // Another one that wants more.
    let api = followed(
        "api",
        json!([]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let (both, joined) = after(&stored, &[&api, &moved]);
    assert_eq!(joined.informs, std::slice::from_ref(&api.key));
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
    // The first one goes.
    let (one, _) = after(&both, &[&api]);
    assert_eq!(names(&one), ["api-deployment"]);
    assert_eq!(
        one["metadata"]["labels"],
        json!({ (label("api")): "id-api" })
    );
    // The last one goes.
    let (none, last) = after(&one, &[]);
    assert!(last.informs.is_empty());
    assert_eq!(none["metadata"]["labels"], json!({}));
    assert_eq!(
        none["spec"],
        json!({ "resource": stored["spec"]["resource"] })
    );
    assert_eq!(after(&none, &[]).1, Plan::default());
}

#[test]
fn edits_of_the_object_are_passed_on() {
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let stored = carried_out(None, &plan(&situation(None, &[&web])));
    let mut situation = situation(Some(read(stored.clone())), &[&web]);
    situation.object = Some(object("9"));
    let stored = carried_out(Some(&stored), &plan(&situation));
    assert_eq!(stored["spec"]["resource"]["resourceVersion"], "9");
}

#[test]
fn what_a_policy_decides_stays_its_own() {
    let web = followed(
        "web",
        json!([{ "name": "m1" }]),
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true }),
    );
    let stored = json!({ "metadata": { "name": "settings-configmap", "namespace": "shop",
            "labels": { "other": "label" } },
        "spec": { "placement": {}, "clusters": [{ "name": "m3" }], "conflictResolution": "Abort",
            "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings",
                "uid": "u-1", "resourceVersion": "1" } } });
    let joined = plan(&situation(Some(read(stored.clone())), &[&web]));
    let Some(Write::Patch(patch)) = &joined.write else {
        panic!("{joined:?}")
    };
    assert_eq!(
        *patch,
        json!({ "metadata": { "labels": { (label("web")): "id-web" } },
            "spec": { "requiredBy": [{ "namespace": "shop", "name": "web-deployment",
                "clusters": [{ "name": "m1" }] }] } })
    );
    let both = carried_out(Some(&stored), &joined);
    let left = plan(&situation(Some(read(both.clone())), &[]));
    assert_eq!(carried_out(Some(&both), &left), stored);
}

#[test]
fn what_others_have_attached_stays() {
    let by_hand = json!({ "metadata": { "name": "settings-configmap", "namespace": "shop", "labels": {} },
        "spec": { "requiredBy": [{ "namespace": "shop", "name": "mine", "clusters": [{ "name": "m9" }] }],
            "conflictResolution": "Overwrite",
            "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings",
                "uid": "u-1", "resourceVersion": "7" } } });
    let record = || Some(read(by_hand.clone()));
    assert_eq!(plan(&situation(record(), &[])), Plan::default());
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let joined = carried_out(Some(&by_hand), &plan(&situation(record(), &[&web])));
    let left = plan(&situation(Some(read(joined.clone())), &[]));
    let left = carried_out(Some(&joined), &left);
    assert_eq!(left["spec"]["requiredBy"], by_hand["spec"]["requiredBy"]);
}

#[test]
fn nobody_is_left_before_it_is_known_what_he_names() {
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let stored = carried_out(None, &plan(&situation(None, &[&web])));
    let mut early = situation(Some(read(stored)), &[]);
    early.unexplored.insert(label("web"));
    early.named.insert(web.key.clone(), Arc::new(web));
    assert_eq!(plan(&early), Plan::default());
}

#[test]
fn a_binding_of_an_older_object_or_of_another_one_is_left_alone() {
    let web = followed("web", json!([{ "name": "m1" }]), json!({}));
    let stored = carried_out(None, &plan(&situation(None, &[&web])));
    let mut older = stored.clone();
    older["metadata"]["ownerReferences"][0]["uid"] = json!("u-0");
    let mut other = stored.clone();
    other["spec"]["resource"]["apiVersion"] = json!("example.io/v1");
    let mut deleting = stored;
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for stored in [older, other, deleting] {
        let moved = followed("web", json!([{ "name": "m2" }]), json!({}));
        let plan = plan(&situation(Some(read(stored)), &[&moved]));
        assert_eq!(plan, Plan::default());
    }
}
