//! Creation, replacement and patches of objects: names, versions, dry runs, generations, the subresources `status` and
//! `scale`, and unknown fields.

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::objects::{Objects, ResponseStatus, deployment, map, status_of, version};
use crate::harness::server;

/// Checks that the server generates names and sets its own metadata fields, and that it refuses invalid creations.
#[tokio::test]
async fn created_objects_get_server_fields() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let long = "a".repeat(100);
    for (base, kept) in [("map-", "map-"), (long.as_str(), &long[..58])] {
        let object = json!({"metadata": {"generateName": base}});
        let [first, second] = [maps.create(&object).await, maps.create(&object).await];
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        assert_ne!(name(&first), name(&second));
        for created in [&first, &second] {
            let suffix = name(created).strip_prefix(kept).unwrap().to_owned();
            let known = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
            assert!(suffix.len() == 5 && suffix.chars().all(known), "{suffix}");
            assert_eq!(created["metadata"]["generateName"], base);
        }
    }
    // The server ignores client values of fields that it sets itself.
    let mut client_set = map("client-set", json!({"k": "v"}), json!({}));
    for (field, value) in [
        ("uid", json!("mine")),
        ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
        ("selfLink", json!("/me")),
        ("managedFields", json!([{"manager": "me"}])),
    ] {
        client_set["metadata"][field] = value;
    }
    let created = maps.create(&client_set).await["metadata"].clone();
    assert_ne!(created["uid"], "mine");
    assert_ne!(created["creationTimestamp"], "2001-01-01T00:00:00Z");
    for absent in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        assert_eq!(created.get(absent), None, "{created}");
    }
    let refusals = [
        (
            map("client-set", json!({}), json!({})),
            409,
            "configmaps \"client-set\" already exists",
        ),
        (
            json!({"metadata": {}}),
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            json!({"metadata": {"name": "b", "resourceVersion": "5"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            json!({"metadata": {"name": "b", "namespace": "elsewhere"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ];
    for (object, code, message) in refusals {
        assert_eq!(status_of(&maps.post("", &object).await), (code, message));
    }
    let nowhere = Objects::maps(&server, "no-such-place");
    let response = nowhere.post("", &map("a", json!({}), json!({}))).await;
    assert_eq!(
        status_of(&response),
        (404, "namespaces \"no-such-place\" not found")
    );
    let everywhere = Objects::at(&server, "/api/v1/configmaps");
    let response = everywhere.post("", &map("a", json!({}), json!({}))).await;
    assert_eq!(response.code, 405);
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let new = map("new", json!({"k": "v"}), json!({}));
    let dry_run = maps.post("?dryRun=All", &new).await;
    assert_eq!((dry_run.code, &dry_run.json["data"]), (201, &new["data"]));
    let dry_run = maps.apply("new", "me&dryRun=All", &new).await;
    assert_eq!(dry_run.code, 201);
    assert_eq!(maps.get("/new").await.code, 404);
    let created = maps.create(&map("a", json!({"k": "1"}), json!({}))).await;
    let change = json!({"data": {"k": "2"}});
    let mut replaced = created.clone();
    replaced["data"]["k"] = json!("2");
    let operations = json!([{"op": "replace", "path": "/data/k", "value": "2"}]);
    for response in [
        maps.put("/a?dryRun=All", &replaced).await,
        maps.merge("/a?dryRun=All", &change).await,
        maps.strategic("/a?dryRun=All", &change).await,
        maps.json_patch("/a?dryRun=All", &operations).await,
        maps.apply(
            "a",
            "me&force=true&dryRun=All",
            &map("a", change["data"].clone(), json!({})),
        )
        .await,
    ] {
        assert_eq!(
            (response.code, &response.json["data"]["k"]),
            (200, &json!("2"))
        );
        assert_eq!(version(&response.json), version(&created));
    }
    let all = json!({"dryRun": ["All"]});
    for response in [
        maps.delete("/a?dryRun=All", &Value::Null).await,
        maps.delete("/a", &all).await,
        maps.delete("?dryRun=All", &Value::Null).await,
        maps.delete("", &all).await,
    ] {
        assert_eq!(response.code, 200, "{}", response.text);
    }
    assert_eq!(maps.get("/a").await.json, created);
    let taken = maps
        .post("?dryRun=All", &map("a", json!({}), json!({})))
        .await;
    assert_eq!(status_of(&taken), (409, "configmaps \"a\" already exists"));
}

/// Checks that a replacement with an old version is refused, and that a replacement without a version succeeds.
#[tokio::test]
async fn replacements_may_name_a_version() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps.create(&map("a", json!({"k": "1"}), json!({}))).await;
    let mut next = created.clone();
    next["data"]["k"] = json!("2");
    let updated = maps.put("/a", &next).await;
    assert_eq!(updated.code, 200);
    assert_ne!(version(&updated.json), version(&created));
    let stale = maps.put("/a", &next).await;
    let modified = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply \
                    your changes to the latest version and try again";
    assert_eq!(status_of(&stale), (409, modified));
    assert_eq!(
        stale.json["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
    // An update without a change writes nothing.
    for same in [
        maps.put("/a", &updated.json).await,
        maps.merge("/a", &json!({"data": {"k": "2"}})).await,
    ] {
        assert_eq!(same.json, updated.json);
    }
    // A replacement without a version is unconditional.
    let unconditional = maps
        .put("/a", &map("a", json!({"k": "3"}), json!({})))
        .await;
    assert_eq!(unconditional.json["data"], json!({"k": "3"}));
    for (object, code, message) in [
        (
            json!({"data": {}}),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "b"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({"metadata": {"name": "a", "resourceVersion": "x"}}),
            500,
            "strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ] {
        assert_eq!(status_of(&maps.put("/a", &object).await), (code, message));
    }
    let other = json!({"metadata": {"name": "a", "uid": "other"}});
    let other = maps.put("/a", &other).await;
    let ResponseStatus(code, message) = status_of(&other);
    let ends = format!(
        "Precondition failed: UID in precondition: other, UID in object meta: {}",
        created["metadata"]["uid"].as_str().unwrap()
    );
    assert!(code == 409 && message.ends_with(&ends), "{message}");
    let missing = maps.put("/none", &map("none", json!({}), json!({}))).await;
    assert_eq!(status_of(&missing), (404, "configmaps \"none\" not found"));
}

/// Checks that changes of the spec or annotations increment the generation of a Deployment, that a write to the object
/// ignores the status, and that a write to the subresource `status` ignores the spec.
#[tokio::test]
async fn spec_changes_increment_the_generation_and_status_is_separate() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let mut object = deployment("web");
    object["status"] = json!({"replicas": 9});
    object["metadata"]["generation"] = json!(7);
    let created = deployments.create(&object).await;
    assert_eq!(
        (&created["metadata"]["generation"], &created["status"]),
        (&json!(1), &json!({}))
    );
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let status = deployments.merge("/web/status", &both).await.json;
    assert_eq!(
        (
            &status["status"]["replicas"],
            &status["spec"]["replicas"],
            &status["metadata"]["generation"]
        ),
        (&json!(3), &json!(2), &json!(1))
    );
    let main = deployments
        .merge("/web", &json!({"status": {"replicas": 5}}))
        .await
        .json;
    assert_eq!(main["status"]["replicas"], 3);
    assert_eq!(
        version(&main),
        version(&status),
        "a write that changes only the status must keep the version"
    );
    for (patch, generation) in [
        (json!({"spec": {"replicas": 4}}), 2),
        (json!({"metadata": {"labels": {"x": "y"}}}), 2),
        (json!({"metadata": {"annotations": {"x": "y"}}}), 3),
        (json!({"spec": {"paused": true}}), 4),
    ] {
        let changed = deployments.merge("/web", &patch).await.json;
        assert_eq!(changed["metadata"]["generation"], generation, "{patch}");
    }
    let selector = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}});
    let refused = deployments.merge("/web", &selector).await;
    assert_eq!(refused.code, 422);
    for (method, part) in [
        ("POST", "status"),
        ("DELETE", "status"),
        ("DELETE", "scale"),
    ] {
        let response = deployments
            .send(method, &format!("/web/{part}"), &[JSON], "{}")
            .await;
        assert_eq!(response.code, 405, "{method} {part}");
    }
}

/// Checks that a write to the `status` of a Service changes its annotations, finalizers and labels. On a Deployment,
/// the labels stay as they are.
#[tokio::test]
async fn status_updates_of_built_in_kinds_may_change_metadata() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let services = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/services"));
    deployments.create(&deployment("web")).await;
    services
        .create(&json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}))
        .await;
    let meta = json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["x.y/z"]}});
    for (objects, has_labels) in [(&services, true), (&deployments, false)] {
        let found = objects.merge("/web/status", &meta).await.json["metadata"].clone();
        assert_eq!(found["annotations"], json!({"a": "1"}));
        assert_eq!(found["finalizers"], json!(["x.y/z"]));
        assert_eq!(found["labels"] == json!({"l": "1"}), has_labels, "{found}");
        let none = json!({"metadata": {"finalizers": null}});
        assert_eq!(objects.merge("/web", &none).await.code, 200);
    }
}

#[tokio::test]
async fn the_scale_subresource_changes_replicas() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let created = deployments.create(&deployment("web")).await;
    let scale = deployments.get("/web/scale").await.json;
    let meta = |name: &str| created["metadata"][name].clone();
    let expected = json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "namespace": namespace, "uid": meta("uid"),
            "resourceVersion": meta("resourceVersion"), "creationTimestamp": meta("creationTimestamp")},
        "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "a=b"}});
    assert_eq!(scale, expected);
    let mut larger = scale.clone();
    larger["spec"]["replicas"] = json!(5);
    let scaled = deployments.put("/web/scale", &larger).await.json;
    assert_eq!(scaled["spec"], json!({"replicas": 5}));
    assert_eq!(
        deployments.put("/web/scale", &larger).await.code,
        409,
        "a PUT with an old version must be refused"
    );
    let merged = deployments
        .merge("/web/scale", &json!({"spec": {"replicas": 6}}))
        .await;
    assert_eq!(merged.json["spec"]["replicas"], 6);
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 0}]);
    let none = deployments.json_patch("/web/scale", &operations).await;
    assert_eq!(
        none.json["spec"],
        json!({}),
        "the scale must omit zero replicas"
    );
    let dry_run = deployments
        .merge("/web/scale?dryRun=All", &json!({"spec": {"replicas": 9}}))
        .await;
    assert_eq!(dry_run.json["spec"]["replicas"], 9);
    let object = deployments.get("/web").await.json;
    assert_eq!(
        (
            &object["spec"]["replicas"],
            &object["metadata"]["generation"]
        ),
        (&json!(0), &json!(4))
    );
    let refusals = [
        (
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}}),
            "the name of the object (x) does not match the name on the URL (web)",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}),
            "ConfigMap in version \"v1\" cannot be handled as a Scale: ",
        ),
    ];
    for (body, begins) in refusals {
        let response = deployments.put("/web/scale", &body).await;
        let ResponseStatus(code, message) = status_of(&response);
        assert!(code == 400 && message.starts_with(begins), "{message}");
    }
    let negative = deployments
        .merge("/web/scale", &json!({"spec": {"replicas": -1}}))
        .await;
    let why = "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(status_of(&negative), (422, why));
    let missing = deployments.get("/none/scale").await;
    assert_eq!(
        status_of(&missing),
        (404, "deployments.apps \"none\" not found")
    );
}

/// Checks that `fieldValidation` decides whether unknown and duplicate fields are refused, cause warnings, or are
/// ignored. The default is to warn.
#[tokio::test]
async fn clients_choose_how_unknown_fields_are_handled() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","x":1,"labels":{"l":"1","l":"2"}},
        "nope":1,"data":{"k":"1","k":"2"},"less":1,"less":2}"#;
    let post = async |query: &str| maps.send("POST", query, &[JSON], body).await;
    let strict = post("?fieldValidation=Strict").await;
    let ResponseStatus(code, message) = status_of(&strict);
    let start =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ";
    assert_eq!(code, 400, "{message}");
    let problems = message.strip_prefix(start).unwrap();
    for problem in [
        "unknown field \"metadata.x\"",
        "duplicate field \"metadata.labels.l\"",
        "unknown field \"nope\"",
        "duplicate field \"data.k\"",
        "unknown field \"less\"",
    ] {
        assert!(problems.contains(problem), "{problems}");
    }
    let warned = post("?fieldValidation=Warn&dryRun=All").await;
    assert_eq!(
        (warned.code, &warned.json["data"]),
        (201, &json!({"k": "2"}))
    );
    let mut warnings: Vec<&str> = warned
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    let mut expected = [
        "299 - \"unknown field \\\"metadata.x\\\"\"",
        "299 - \"duplicate field \\\"metadata.labels.l\\\"\"",
        "299 - \"unknown field \\\"nope\\\"\"",
        "299 - \"duplicate field \\\"data.k\\\"\"",
        "299 - \"unknown field \\\"less\\\"\"",
    ];
    warnings.sort_unstable();
    expected.sort_unstable();
    assert_eq!(warnings, expected);
    // The default is to warn.
    assert!(post("?dryRun=All").await.headers.contains_key("warning"));
    let ignored = post("?fieldValidation=Ignore").await;
    assert_eq!((ignored.code, ignored.headers.get("warning")), (201, None));
    for (patch, why) in [
        (r#"{"nope":1}"#, "unknown field \"nope\""),
        (
            r#"{"nope":1,"data":{"k":"1","k":"2"}}"#,
            "duplicate field \"data.k\", unknown field \"nope\"",
        ),
    ] {
        for kind in ["merge", "strategic-merge"] {
            let kind = format!("application/{kind}-patch+json");
            let header = ("content-type", kind.as_str());
            let rest = "/a?fieldValidation=Strict";
            let response = maps.send("PATCH", rest, &[header], patch).await;
            let ResponseStatus(code, message) = status_of(&response);
            assert_eq!(code, 422, "{message}");
            let why = format!("strict decoding error: {why}");
            assert!(message.ends_with(&why), "{message}");
        }
    }
}

/// Checks that an Event created in `events.k8s.io/v1` can be read in the core API.
#[tokio::test]
async fn both_event_apis_share_their_objects() {
    let server = server().await;
    let namespace = server.namespace().await;
    let new = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let old = format!("/api/v1/namespaces/{namespace}/events");
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R", "action": "A", "type": "Normal", "note": "hi",
        "reportingController": "c.io/c", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": namespace}});
    let created = Objects::at(&server, new).create(&event).await;
    assert_eq!(created["note"], "hi");
    let seen = Objects::at(&server, old).get("/e").await.json;
    assert_eq!(
        (
            &seen["apiVersion"],
            &seen["message"],
            &seen["involvedObject"]["name"]
        ),
        (&json!("v1"), &json!("hi"), &json!("p"))
    );
}
