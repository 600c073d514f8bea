//! Tests of empty values in server-side apply. The field manager that applies an empty value owns the field, even if
//! the stored object omits this field.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, ResponseStatus, deployment, map, status_of};
use crate::harness::server;

/// Returns the fields that a field manager owns.
fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == manager);
    &entry.unwrap_or_else(|| panic!("{manager}: {object}"))["fieldsV1"]
}

/// Checks that the manager that applies an empty value owns the field, although the stored object omits the field. A
/// second equal apply changes nothing.
#[tokio::test]
async fn empty_values_have_an_owner() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let empty = map("m", json!({}), json!({}));
    let created = maps.apply("m", "one", &empty).await.json;
    let expected = json!({"f:data": {}, "f:metadata": {"f:labels": {}}});
    assert_eq!(*fields(&created, "one"), expected);
    assert_eq!(
        (created.get("data"), created["metadata"].get("labels")),
        (None, None)
    );
    let again = maps.apply("m", "one", &empty).await.json;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );

    let pods = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/pods"));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"hostNetwork": false,
        "securityContext": {"sysctls": []}, "nodeName": "", "containers": [{"name": "c", "image": "i", "stdin": false}]}});
    let created = pods.apply("p", "one", &pod).await.json;
    let container = json!({".": {}, "f:image": {}, "f:name": {}, "f:stdin": {}});
    let expected = json!({"f:spec": {"f:hostNetwork": {}, "f:nodeName": {}, "f:securityContext": {"f:sysctls": {}},
        "f:containers": {"k:{\"name\":\"c\"}": container}}});
    assert_eq!(*fields(&created, "one"), expected, "{created}");
    assert_eq!(
        (
            created["spec"].get("hostNetwork"),
            created["spec"].get("nodeName")
        ),
        (None, None)
    );
}

/// Checks that an apply of `false` and 0 conflicts with the manager of the stored values. With force, the stored values
/// are removed.
#[tokio::test]
async fn empty_values_replace_stored_values() {
    let server = server().await;
    let deployments = Objects::deployments(&server, &server.namespace().await);
    let mut web = deployment("web");
    web["spec"]["paused"] = json!(true);
    web["spec"]["minReadySeconds"] = json!(5);
    deployments.create(&web).await;
    let resumed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"paused": false, "minReadySeconds": 0}});
    let refused = deployments.apply("web", "one", &resumed).await;
    let ResponseStatus(code, message) = status_of(&refused);
    assert_eq!(code, 409, "{message}");
    assert!(
        message.ends_with(":\n- .spec.minReadySeconds\n- .spec.paused"),
        "{message}"
    );
    let forced = deployments
        .apply("web", "one&force=true", &resumed)
        .await
        .json;
    assert_eq!(
        (
            forced["spec"].get("paused"),
            forced["spec"].get("minReadySeconds")
        ),
        (None, None)
    );
    let expected = json!({"f:spec": {"f:minReadySeconds": {}, "f:paused": {}}});
    assert_eq!(*fields(&forced, "one"), expected);
}

/// Checks that the manager of an empty map owns the whole map, so that another manager's new entry conflicts. Once the
/// map has an entry, its manager owns only the entry.
#[tokio::test]
async fn empty_maps_are_owned_until_they_have_entries() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let empty = map("m", Value::Null, json!({}));
    let labelled = map("m", Value::Null, json!({"a": "b"}));
    maps.apply("m", "one", &empty).await;
    let refused = maps.apply("m", "two", &labelled).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .metadata.labels";
    assert_eq!(status_of(&refused), (409, why));
    let created = maps.apply("m", "one", &labelled).await.json;
    assert_eq!(created["metadata"]["labels"], json!({"a": "b"}));
    let expected = json!({"f:metadata": {"f:labels": {"f:a": {}}}});
    assert_eq!(*fields(&created, "one"), expected);
}

/// Checks that the manager that applies an empty list of finalizers owns no field, because managers own the items of
/// such a list instead of the list.
#[tokio::test]
async fn lists_are_owned_by_item() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let mut object = map("m", json!({"k": "v"}), Value::Null);
    object["metadata"]["finalizers"] = json!([]);
    let created = maps.apply("m", "one", &object).await.json;
    assert_eq!(*fields(&created, "one"), json!({"f:data": {"f:k": {}}}));
}

/// Checks that an apply fails if a list item has no merge key and the key has no default.
#[tokio::test]
async fn list_items_need_their_merge_key() {
    let server = server().await;
    let namespace = server.namespace().await;
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let accounts = Objects::at(&server, accounts);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{}]});
    let why = "failed to create typed patch object (/a; /v1, Kind=ServiceAccount): .secrets: element 0: associative \
               list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values \
               for any key fields)";
    assert_eq!(
        status_of(&accounts.apply("a", "one", &account).await),
        (500, why)
    );
    // The merge key `name` of a container has a default: the empty string.
    let deployments = Objects::deployments(&server, &namespace);
    let mut web = deployment("web");
    let container = &mut web["spec"]["template"]["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("name");
    let refused = deployments.apply("web", "one", &web).await;
    let why =
        "Deployment.apps \"web\" is invalid: spec.template.spec.containers[0].name: Required value";
    assert_eq!(status_of(&refused), (422, why));
    // A strategic merge patch that adds a list may omit the merge keys.
    accounts.create(&json!({"metadata": {"name": "b"}})).await;
    let patched = accounts.strategic("/b", &json!({"secrets": [{}]})).await;
    assert_eq!(patched.code, 200, "{}", patched.text);
}

/// The server returns null for these lists, both if a list is missing and if it is empty. Checks that a manager that
/// changes a missing list to an empty list becomes the owner of the field, although both responses contain null.
#[tokio::test]
async fn empty_lists_have_an_owner_although_they_are_returned_as_null() {
    let server = server().await;
    let pod = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    let mut projected = pod.clone();
    projected["volumes"] = json!([{"name": "v", "projected": {}}]);
    let volume = "/f:spec/f:volumes/k:{\"name\":\"v\"}/f:projected/f:sources";
    let job = json!({"spec": {"template": {"spec": pod}, "podFailurePolicy": {}}});
    let cases = [
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "roles",
            json!({}),
            "/rules",
            "/f:rules",
        ),
        (
            "/api/v1",
            "limitranges",
            json!({"spec": {}}),
            "/spec/limits",
            "/f:spec/f:limits",
        ),
        (
            "/apis/discovery.k8s.io/v1",
            "endpointslices",
            json!({"addressType": "IPv4"}),
            "/endpoints",
            "/f:endpoints",
        ),
        (
            "/apis/discovery.k8s.io/v1",
            "endpointslices",
            json!({"addressType": "IPv4"}),
            "/ports",
            "/f:ports",
        ),
        (
            "/api/v1",
            "pods",
            json!({"spec": projected}),
            "/spec/volumes/0/projected/sources",
            volume,
        ),
        (
            "/apis/batch/v1",
            "jobs",
            job,
            "/spec/podFailurePolicy/rules",
            "/f:spec/f:podFailurePolicy/f:rules",
        ),
    ];
    for (version, plural, mut object, place, field) in cases {
        let namespace = server.namespace().await;
        let objects = Objects::at(
            &server,
            format!("{version}/namespaces/{namespace}/{plural}"),
        );
        let owner = |object: &Value| -> Option<String> {
            let mut entries = object["metadata"]["managedFields"]
                .as_array()
                .into_iter()
                .flatten();
            let entry = entries.find(|entry| entry["fieldsV1"].pointer(field).is_some());
            entry.map(|entry| entry["manager"].to_string())
        };
        object["metadata"] = json!({"name": "a", "labels": {"a": "b"}});
        let created = objects.post("?fieldManager=one", &object).await.json;
        assert_eq!(
            created.pointer(place),
            Some(&Value::Null),
            "{place}: {created}"
        );
        let set = |value: Value| json!([{"op": "add", "path": place, "value": value}]);
        let same = objects
            .json_patch("/a?fieldManager=two", &set(Value::Null))
            .await
            .json;
        assert_eq!(owner(&same), owner(&created), "{place}: {same}");
        let emptied = objects
            .json_patch("/a?fieldManager=two", &set(json!([])))
            .await
            .json;
        assert_eq!(
            owner(&emptied).as_deref(),
            Some("\"two\""),
            "{place}: {emptied}"
        );
        assert_eq!(
            emptied.pointer(place),
            Some(&Value::Null),
            "{place}: {emptied}"
        );
        assert_eq!(
            emptied["metadata"].get("generation"),
            created["metadata"].get("generation"),
            "{place}"
        );
        object["metadata"]["name"] = json!("b");
        let parent = place.rsplit_once('/').unwrap().0;
        object.pointer_mut(parent).unwrap()[place.rsplit_once('/').unwrap().1] = json!([]);
        let created = objects.post("?fieldManager=one", &object).await.json;
        assert_eq!(
            owner(&created).as_deref(),
            Some("\"one\""),
            "{place}: {created}"
        );
    }
}
