//! Tests of JSON patches, merge patches and strategic merge patches: results and errors.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, ResponseStatus, deployment, map, status_of};
use crate::harness::server;

/// Checks that the operations of a JSON patch are applied in order. If one operation fails, the object remains
/// unchanged.
#[tokio::test]
async fn json_patches_apply_in_order_or_not_at_all() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({"k": "1"}), json!({"l": "m"})))
        .await;
    let done = json!([
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "add", "path": "/data/z", "value": "2"},
        {"op": "copy", "from": "/data/z", "path": "/data/w"},
        {"op": "move", "from": "/data/w", "path": "/data/v"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "remove", "path": "/data/z"},
        // `replace` may also add a missing field.
        {"op": "replace", "path": "/data/new", "value": "4"},
        // `copy` from a missing field copies null.
        {"op": "copy", "from": "/data/none", "path": "/data/copy"},
    ]);
    let after = maps.json_patch("/a", &done).await;
    let expected = json!({"k": "3", "v": "2", "new": "4", "copy": ""});
    assert_eq!(after.json["data"], expected);
    let escaped = json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}]);
    let labelled = maps.json_patch("/a", &escaped).await;
    assert_eq!(labelled.json["metadata"]["labels"]["a/b"], "c");
    let fit = "the server rejected our request due to an error in our request";
    for operation in [
        json!({"op": "test", "path": "/data/k", "value": "other"}),
        json!({"op": "remove", "path": "/data/none"}),
        json!({"op": "add", "path": "/none/x", "value": "1"}),
        json!({"op": "copy", "from": "/none/x", "path": "/data/y"}),
        json!({"op": "copy", "from": "/data/k", "path": "/none/y"}),
        json!({"op": "move", "from": "/data/none", "path": "/data/y"}),
        json!({"op": "replace", "path": "/none/x", "value": "1"}),
        json!({"op": "paint", "path": "/data/k"}),
        json!({"op": "add", "path": "data", "value": 1}),
    ] {
        let first = json!({"op": "add", "path": "/data/first", "value": "1"});
        let response = maps.json_patch("/a", &json!([first, operation])).await;
        assert_eq!(status_of(&response), (422, fit), "{operation}");
    }
    assert_eq!(
        maps.get("/a").await.json,
        labelled.json,
        "a failed patch must apply none of its operations"
    );
    let many = vec![json!({"op": "add", "path": "/data/k", "value": "1"}); 10_001];
    let why = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(
        status_of(&maps.json_patch("/a", &json!(many)).await),
        (413, why)
    );
}

/// Checks that a body that is not a patch of its media type gets 400, and that a patch of a missing object gets 404.
#[tokio::test]
async fn malformed_patches_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({"k": "1"}), json!({}))).await;
    for (kind, body) in [
        ("json", "x"),
        ("json", ""),
        ("json", "{}"),
        ("merge", "x"),
        ("merge", ""),
        ("merge", "[]"),
        ("merge", "5"),
        ("strategic-merge", "x"),
        ("strategic-merge", ""),
        ("strategic-merge", "[1]"),
    ] {
        let kind = format!("application/{kind}-patch+json");
        let header = ("content-type", kind.as_str());
        let response = maps.send("PATCH", "/a", &[header], body).await;
        assert_eq!(response.code, 400, "{kind} {body}");
    }
    for none in [
        maps.merge("/none", &json!({})).await,
        maps.strategic("/none", &json!({})).await,
        maps.json_patch("/none", &json!([])).await,
    ] {
        assert_eq!(status_of(&none), (404, "configmaps \"none\" not found"));
    }
    let forced = maps.merge("/a?force=true", &json!({})).await;
    let why = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    assert_eq!(status_of(&forced), (422, why));
}

/// Checks that a patch of the name, namespace, UID, resource version or kind gets an error, unless the value stays the
/// same.
#[tokio::test]
async fn patches_cannot_change_the_identity_of_an_object() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps.create(&map("a", json!({"k": "1"}), json!({}))).await;
    for (patch, code, part) in [
        (
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"namespace": "b"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({"metadata": {"uid": "b"}}),
            422,
            "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"b\": field is immutable",
        ),
        (
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; ",
        ),
        (
            json!({"metadata": {"resourceVersion": "x"}}),
            500,
            "strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            json!({"apiVersion": "v2"}),
            422,
            " \"\" is invalid: patch: Invalid value: ",
        ),
        (
            json!({"kind": "Secret"}),
            422,
            " \"\" is invalid: patch: Invalid value: ",
        ),
        (
            json!({"data": {"k": 5}}),
            422,
            " \"\" is invalid: patch: Invalid value: ",
        ),
    ] {
        let response = maps.merge("/a", &patch).await;
        let ResponseStatus(found, message) = status_of(&response);
        assert!(
            found == code && message.starts_with(part),
            "{patch}: {found} {message}"
        );
    }
    // A patch may repeat immutable fields with equal values.
    let same = json!({"metadata": {"name": "a", "namespace": namespace, "uid": created["metadata"]["uid"],
        "resourceVersion": created["metadata"]["resourceVersion"], "creationTimestamp": null}});
    assert_eq!(maps.merge("/a", &same).await.json, created);
}

/// Creates a Deployment, applies these strategic merge patches in order, and returns the Deployment.
async fn patched(patches: &[Value]) -> Value {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    deployments.create(&deployment("web")).await;
    let mut last = Value::Null;
    for patch in patches {
        let response = deployments.strategic("/web", patch).await;
        assert_eq!(response.code, 200, "{patch}: {}", response.text);
        last = response.json;
    }
    last
}

fn template_patch(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

fn container_names(object: &Value) -> Vec<&str> {
    let list = object["spec"]["template"]["spec"]["containers"].as_array();
    let name = |container: &'_ Value| container["name"].is_string();
    let list = list.unwrap();
    assert!(list.iter().all(name));
    list.iter().filter_map(|c| c["name"].as_str()).collect()
}

/// Checks that a strategic merge patch merges list items by their merge key, and that its directives delete, replace
/// and order items.
#[tokio::test]
async fn strategic_patches_merge_lists_by_key() {
    let add = template_patch(json!({"containers": [{"name": "d", "image": "e"}]}));
    assert_eq!(
        container_names(&patched(std::slice::from_ref(&add)).await),
        ["d", "c"],
        "the patch must put new items first"
    );
    let order = template_patch(
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "d"}],
        "containers": [{"name": "d", "image": "e"}]}),
    );
    assert_eq!(
        container_names(&patched(&[order]).await),
        ["c", "d"],
        "`$setElementOrder` must set the order"
    );
    let delete = template_patch(json!({"containers": [{"name": "c", "$patch": "delete"}]}));
    assert_eq!(container_names(&patched(&[add, delete]).await), ["d"]);
    let replace = template_patch(
        json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "o"}]}),
    );
    assert_eq!(container_names(&patched(&[replace]).await), ["only"]);

    let inner = template_patch(json!({"containers": [{"name": "c",
        "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}));
    let found = patched(&[inner]).await["spec"]["template"]["spec"]["containers"][0].take();
    assert_eq!(found["image"], "i");
    assert_eq!(found["env"], json!([{"name": "B", "value": "2"}]));
    let ports = json!([{"name": "http", "containerPort": 80, "protocol": "TCP"},
        {"containerPort": 81, "protocol": "TCP"}]);
    assert_eq!(found["ports"], ports);
}

/// Checks that directives of a strategic merge patch replace a map, remove the fields that `$retainKeys` does not list,
/// and delete entries of a list of strings. A patch with an unknown directive fails, and custom resources reject
/// strategic merge patches.
#[tokio::test]
async fn strategic_patch_directives_are_applied() {
    let retain = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let found = patched(&[retain]).await;
    assert_eq!(found["spec"]["strategy"], json!({"type": "Recreate"}));
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"$patch": "replace", "a": "b", "z": "y"}}}}});
    let found = patched(&[labels]).await;
    assert_eq!(
        found["spec"]["template"]["metadata"]["labels"],
        json!({"a": "b", "z": "y"})
    );
    let held = |names: Value| json!({"metadata": {"finalizers": names}});
    let less = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}});
    let patches = [held(json!(["a.b/c"])), held(json!(["d.e/f"])), less];
    assert_eq!(
        patched(&patches[..2]).await["metadata"]["finalizers"],
        json!(["d.e/f", "a.b/c"])
    );
    assert_eq!(
        patched(&patches).await["metadata"]["finalizers"],
        json!(["d.e/f"])
    );
    let gone = json!({"spec": {"replicas": null}});
    assert_eq!(
        patched(&[gone]).await["spec"]["replicas"],
        1,
        "a patch with null must restore the default"
    );

    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    deployments.create(&deployment("web")).await;
    for (container, why) in [
        (
            json!({"image": "d"}),
            "does not contain declared merge key: name",
        ),
        (
            json!({"name": "c", "$patch": "foo"}),
            "unknown patch type: foo",
        ),
    ] {
        let patch = template_patch(json!({"containers": [container]}));
        let response = deployments.strategic("/web", &patch).await;
        let ResponseStatus(code, message) = status_of(&response);
        assert!(code == 500 && message.contains(why), "{message}");
    }
    let definition = crate::harness::definitions::definition(json!({"type": "object"}));
    let kind = crate::harness::definitions::Kind::install(&server, &definition).await;
    kind.create("a", &json!({})).await;
    let things = Objects::at(&server, kind.path("v1"));
    let response = things.strategic("/a", &json!({})).await;
    assert_eq!(
        (response.code, &response.json["reason"]),
        (415, &json!("UnsupportedMediaType"))
    );
}

/// Checks that a JSON patch whose `copy` operations would multiply the size of an object gets 422.
#[tokio::test]
async fn short_patches_cannot_create_huge_objects() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let text = "x".repeat(900_000);
    let before = maps.create(&map("a", json!({"k": text}), json!({}))).await;
    let fit = "the server rejected our request due to an error in our request";
    let double = json!({"op": "copy", "from": "/data", "path": "/data/k"});
    let copy = json!({"op": "copy", "from": "/data/k", "path": "/data/l"});
    for operation in [double, copy] {
        let response = maps.json_patch("/a", &json!(vec![operation; 40])).await;
        assert_eq!(status_of(&response), (422, fit));
    }
    assert_eq!(maps.get("/a").await.json, before);
}
