//! Server-side apply: the ownership of fields, conflicts, forced applies, removed fields, and the managers of
//! subresources.

use serde_json::{Value, json};

use crate::harness::content_type::{APPLY, YAML};
use crate::harness::objects::{Objects, ResponseStatus, deployment, map, status_of, version};
use crate::harness::server;

/// Returns the manager, operation, subresource and fields of each entry of `managedFields`.
fn managers(object: &Value) -> Vec<(&str, &str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |value: &'_ Value| value.as_str().is_some();
    entries
        .into_iter()
        .flatten()
        .map(|entry| {
            assert!(
                text(&entry["manager"]) && entry["fieldsType"] == "FieldsV1",
                "{entry}"
            );
            (
                entry["manager"].as_str().unwrap_or_default(),
                entry["operation"].as_str().unwrap_or_default(),
                entry["subresource"].as_str().unwrap_or_default(),
                &entry["fieldsV1"],
            )
        })
        .collect()
}

/// Returns the ConfigMap `a` with these data.
fn data(pairs: Value) -> Value {
    map("a", pairs, Value::Null)
}

/// Checks that an apply conflicts with the values of another applier, that a forced apply takes over the fields, and
/// that fields without an applier are removed.
#[tokio::test]
async fn appliers_conflict_force_and_remove_fields() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps.apply("a", "one", &data(json!({"k": "1"}))).await;
    assert_eq!(created.code, 201);
    let fields = |names: &[&str]| {
        let names = names.iter().map(|name| (format!("f:{name}"), json!({})));
        json!({"f:data": Value::Object(names.collect())})
    };
    assert_eq!(
        managers(&created.json),
        [("one", "Apply", "", &fields(&["k"]))]
    );
    let again = maps.apply("a", "one", &data(json!({"k": "1"}))).await;
    assert_eq!(
        (again.code, &again.json),
        (200, &created.json),
        "an equal apply must change nothing"
    );

    let two = data(json!({"k": "2", "l": "3"}));
    let refused = maps.apply("a", "two", &two).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .data.k";
    assert_eq!(status_of(&refused), (409, why));
    let causes = json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k"}]);
    assert_eq!(refused.json["details"], json!({ "causes": causes }));
    let forced = maps.apply("a", "two&force=true", &two).await.json;
    assert_eq!(forced["data"], two["data"]);
    assert_eq!(
        managers(&forced),
        [("two", "Apply", "", &fields(&["k", "l"]))]
    );

    // Managers that apply the same value of a field share the field. The server removes the field when the last manager
    // stops applying it.
    let shared = maps.apply("a", "one", &data(json!({"k": "2"}))).await.json;
    assert_eq!(
        managers(&shared),
        [
            ("one", "Apply", "", &fields(&["k"])),
            ("two", "Apply", "", &fields(&["k", "l"]))
        ]
    );
    assert_eq!(
        shared["metadata"]["managedFields"][0].get("time"),
        None,
        "an apply of an equal value must not change the entry of the first applier"
    );
    let less = maps.apply("a", "two", &data(json!({"l": "3"}))).await.json;
    assert_eq!(
        less["data"],
        json!({"k": "2", "l": "3"}),
        "a field that the first applier still sets must remain"
    );
    let none = maps
        .apply("a", "one", &map("a", Value::Null, Value::Null))
        .await
        .json;
    assert_eq!(none["data"], json!({"l": "3"}));

    // Writes other than applies never conflict. Their manager owns the fields that they set.
    let updated = maps
        .merge("/a?fieldManager=three", &json!({"data": {"l": "4"}}))
        .await
        .json;
    let names: Vec<&str> = managers(&updated).iter().map(|entry| entry.0).collect();
    assert_eq!(names, ["three"]);
    let refused = maps.apply("a", "two", &data(json!({"l": "3"}))).await;
    let why = "Apply failed with 1 conflict: conflict with \"three\" using v1: .data.l";
    assert_eq!(status_of(&refused), (409, why));
}

/// Checks that two appliers can own different containers of one Deployment, that an apply of a container of the other
/// applier conflicts, and that duplicate items in one apply are refused.
#[tokio::test]
async fn appliers_own_list_items_by_key() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let with = |containers: Value| {
        let mut object = deployment("web");
        object["spec"].as_object_mut().unwrap().remove("replicas");
        object["spec"]["template"]["spec"]["containers"] = containers;
        object
    };
    let one = with(json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]));
    assert_eq!(deployments.apply("web", "one", &one).await.code, 201);
    let two = with(json!([{"name": "d", "image": "j"}]));
    let both = deployments.apply("web", "two", &two).await.json;
    let images = |object: &Value| -> Vec<Value> {
        let list = object["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap();
        list.iter().map(|c| c["image"].clone()).collect()
    };
    assert_eq!(images(&both), ["i", "j"]);
    let changed = with(json!([{"name": "c", "image": "other"}]));
    let refused = deployments.apply("web", "two", &changed).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.template.spec.containers[name=\"c\"].image";
    assert_eq!(status_of(&refused), (409, why));
    let moved = with(json!([{"name": "c", "image": "i", "ports": [{"containerPort": 81}]}]));
    let moved = deployments.apply("web", "one", &moved).await.json;
    let ports = &moved["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(*ports, json!([{"containerPort": 81, "protocol": "TCP"}]));
    let failed = "failed to create typed patch object (/web; apps/v1, Kind=Deployment): .spec";
    for (containers, why) in [
        (
            json!([{"name": "c", "image": "i"}, {"name": "c", "image": "k"}]),
            ".template.spec.containers: duplicate entries for key [name=\"c\"]",
        ),
        (
            json!([{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]),
            ".template.spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]",
        ),
    ] {
        let response = deployments.apply("web", "two", &with(containers)).await;
        assert_eq!(
            status_of(&response),
            (500, format!("{failed}{why}").as_str())
        );
    }
}

/// Checks that the first apply of an object without managed fields assigns the existing fields to the manager
/// `before-first-apply`.
#[tokio::test]
async fn fields_from_before_the_first_apply_have_a_manager() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&data(json!({"x": "1", "y": "2"}))).await;
    // After a write of an empty `managedFields` list, the server tracks no managers until the next apply. A list with
    // one empty entry has the same effect.
    for list in [json!([{}]), json!([])] {
        let cleared = maps
            .merge("/a", &json!({"metadata": {"managedFields": list}}))
            .await
            .json;
        assert_eq!(managers(&cleared), []);
    }
    let changed = maps.merge("/a", &json!({"data": {"q": "1"}})).await.json;
    assert_eq!(managers(&changed), []);
    let refused = maps.apply("a", "one", &data(json!({"x": "9"}))).await;
    let why =
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x";
    assert_eq!(status_of(&refused), (409, why));
    let forced = maps
        .apply("a", "one&force=true", &data(json!({"x": "9"})))
        .await
        .json;
    let rest = json!({"f:data": {".": {}, "f:q": {}, "f:y": {}}});
    assert_eq!(
        managers(&forced),
        [
            ("one", "Apply", "", &json!({"f:data": {"f:x": {}}})),
            ("before-first-apply", "Update", "", &rest)
        ]
    );
}

/// Checks that a patch that removes a value also removes the ownership of its fields.
#[tokio::test]
async fn removed_values_have_no_owner() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let created = deployments.create(&deployment("web")).await;
    let owned = |object: &Value| managers(object)[0].3.clone();
    let before = owned(&created);
    for (add, take) in [
        (
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
            json!({"metadata": {"finalizers": null}}),
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j", "env": [{"name": "X"}]}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "$patch": "delete"}]}}}}),
        ),
        (
            json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}),
            json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}),
        ),
    ] {
        let added = owned(&deployments.strategic("/web", &add).await.json);
        assert_ne!(added, before, "{add}");
        let taken = owned(&deployments.strategic("/web", &take).await.json);
        assert_eq!(taken, before, "{take}");
    }
}

/// Checks that applies to `scale` and `status` are recorded with their subresource in the managed fields, and that an
/// apply to `scale` conflicts with the manager of the replicas.
#[tokio::test]
async fn each_subresource_has_its_own_managers() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    deployments.apply("web", "one", &deployment("web")).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 5}});
    let refused = deployments.apply("web/scale", "scaler", &scale).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas";
    assert_eq!(status_of(&refused), (409, why));
    let forced = deployments
        .apply("web/scale", "scaler&force=true", &scale)
        .await
        .json;
    assert_eq!(
        (&forced["kind"], &forced["spec"]["replicas"]),
        (&json!("Scale"), &json!(5))
    );
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1}, "status": {"replicas": 5}});
    let written = deployments
        .apply("web/status", "reporter", &status)
        .await
        .json;
    assert_eq!(
        (&written["spec"]["replicas"], &written["status"]["replicas"]),
        (&json!(5), &json!(5))
    );
    let found: Vec<(&str, &str, &Value)> = managers(&written)
        .into_iter()
        .filter(|(name, ..)| *name != "one")
        .map(|(name, _, part, fields)| (name, part, fields))
        .collect();
    assert_eq!(
        found,
        [
            ("scaler", "scale", &json!({"f:spec": {"f:replicas": {}}})),
            (
                "reporter",
                "status",
                &json!({"f:status": {"f:replicas": {}}})
            )
        ]
    );
    let one = managers(&written)
        .into_iter()
        .find(|(name, ..)| *name == "one")
        .unwrap();
    assert_eq!(
        one.3["f:spec"].get("f:replicas"),
        None,
        "the scaler must own the replicas"
    );
    let refused = deployments.apply("web", "one", &deployment("web")).await;
    let why = "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: .spec.replicas";
    let ResponseStatus(code, message) = status_of(&refused);
    // kube-apiserver may leave out the subresource in the message.
    let known = [
        why,
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\": .spec.replicas",
    ];
    assert!(code == 409 && known.contains(&message), "{message}");
    let mut other = status.clone();
    other["metadata"]["name"] = json!("none");
    let none = deployments.apply("none/status", "reporter", &other);
    assert_eq!(
        status_of(&none.await),
        (404, "deployments.apps \"none\" not found")
    );
}

/// Checks that an apply patch is refused if its version, kind, name or namespace differs from the URL, if it has
/// managed fields or an unknown field, or if it has no field manager.
#[tokio::test]
async fn apply_patches_must_name_version_kind_and_object() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let typed = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let with = |field: &str, value: Value| {
        let mut object = typed("v1", "ConfigMap");
        object["metadata"][field] = value;
        object
    };
    let nil = "metadata.managedFields must be nil";
    for (object, code, message) in [
        (
            typed("v2", "ConfigMap"),
            400,
            "invalid object type: /v2, Kind=ConfigMap",
        ),
        (
            typed("v1", "Secret"),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            json!({"apiVersion": "v1", "metadata": {"name": "a"}}),
            400,
            "invalid object type: /v1, Kind=",
        ),
        (with("managedFields", json!([{"manager": "x"}])), 400, nil),
        (with("managedFields", json!([])), 400, nil),
        (
            with("name", Value::Null),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            with("name", json!("b")),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            with("namespace", json!("b")),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "nope": 1}),
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nope: field not declared in schema",
        ),
    ] {
        let response = maps.apply("a", "one", &object).await;
        assert_eq!(status_of(&response), (code, message));
    }
    let nameless = maps
        .send(
            "PATCH",
            "/a",
            &[APPLY],
            typed("v1", "ConfigMap").to_string(),
        )
        .await;
    let why = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    assert_eq!(status_of(&nameless), (422, why));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n";
    let created = maps
        .send("PATCH", "/a?fieldManager=one", &[APPLY], yaml)
        .await;
    assert_eq!(
        (created.code, &created.json["data"]),
        (201, &json!({"k": "v"}))
    );
    let stale = with("resourceVersion", json!("1"));
    assert_eq!(maps.apply("a", "one", &stale).await.code, 409);
    let fresh = with("resourceVersion", json!(version(&created.json)));
    assert_eq!(maps.apply("a", "one", &fresh).await.code, 200);
}

/// Checks that a manager that applies `null` owns the field, although the stored value is empty.
#[tokio::test]
async fn appliers_own_null_values() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let created = maps
        .apply("a", "one", &data(json!({"k": "1", "l": null})))
        .await;
    assert_eq!(created.json["data"], json!({"k": "1", "l": ""}));
    let refused = maps.apply("a", "two", &data(json!({"k": null}))).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .data.k";
    assert_eq!(status_of(&refused), (409, why));
    // Applying a null map is the same as applying an empty map: the entries of other managers remain.
    let none = data(Value::Null);
    let mut whole = none.clone();
    whole["data"] = Value::Null;
    let both = maps.apply("a", "two", &whole).await;
    assert_eq!(both.json["data"], created.json["data"]);
    let fields = |name: &str| {
        let found = managers(&both.json).into_iter().find(|(n, ..)| *n == name);
        found.map(|(.., fields)| fields.clone())
    };
    assert_eq!(fields("two"), Some(json!({"f:data": {}})));
    assert!(fields("one").is_some(), "{}", both.text);

    let deployments = Objects::deployments(&server, &namespace);
    let mut web = deployment("web");
    web["spec"]["minReadySeconds"] = json!(5);
    deployments.apply("web", "one", &web).await;
    let mut less = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": null, "minReadySeconds": null, "template": {"spec": {"containers": [
            {"name": "c", "args": null, "resources": {"limits": {"cpu": null}}}]}}}});
    let refused = deployments.apply("web", "two", &less).await;
    let why = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.minReadySeconds\n- .spec.replicas";
    assert_eq!(status_of(&refused), (409, why));
    less["spec"]["replicas"] = Value::Null;
    let forced = deployments.apply("web", "two&force=true", &less).await;
    let spec = &forced.json["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["minReadySeconds"]),
        (&json!(1), &Value::Null),
        "{}",
        forced.text
    );
    let two = managers(&forced.json)
        .into_iter()
        .find(|(name, ..)| *name == "two")
        .unwrap();
    let container =
        json!({".": {}, "f:args": {}, "f:name": {}, "f:resources": {"f:limits": {"f:cpu": {}}}});
    let owned = json!({"f:spec": {"f:minReadySeconds": {}, "f:replicas": {}, "f:template": {"f:spec":
        {"f:containers": {"k:{\"name\":\"c\"}": container}}}}});
    assert_eq!(*two.3, owned);
    let again = deployments.apply("web", "two", &less).await;
    assert_eq!(
        again.json, forced.json,
        "an equal apply must change nothing"
    );
}

/// Checks that the last of duplicate YAML keys is stored, with a warning unless validation is off. Strict validation
/// refuses the body.
#[tokio::test]
async fn the_last_of_duplicate_yaml_keys_is_stored() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: first\n  l: x\n  k: last\n";
    let warned = "299 - \"line 8: key \\\"k\\\" already set in map\"";
    for (validation, warning) in [("Warn", Some(warned)), ("Ignore", None)] {
        for (method, rest, headers) in [
            (
                "PATCH",
                "/a?fieldManager=one&force=true&fieldValidation=",
                &[APPLY],
            ),
            ("PUT", "/a?fieldValidation=", &[YAML]),
            ("POST", "?dryRun=All&fieldValidation=", &[YAML]),
        ] {
            let yaml = match method {
                "POST" => yaml.replace("name: a", "name: b"),
                _ => yaml.to_owned(),
            };
            let rest = format!("{rest}{validation}");
            let response = maps.send(method, &rest, headers, yaml).await;
            assert_eq!(
                response.json["data"],
                json!({"k": "last", "l": "x"}),
                "{rest}"
            );
            let found = response.headers.get("warning");
            assert_eq!(found.and_then(|w| w.to_str().ok()), warning, "{rest}");
        }
    }
    let rest = "/a?fieldManager=one&fieldValidation=Strict";
    let refused = maps.send("PATCH", rest, &[APPLY], yaml).await;
    let duplicate = "line 8: key \"k\" already set in map";
    let ResponseStatus(code, message) = status_of(&refused);
    assert!(code == 400 && message.contains(duplicate), "{message}");
    let refused = maps
        .send("PUT", "/a?fieldValidation=Strict", &[YAML], yaml)
        .await;
    let ResponseStatus(code, message) = status_of(&refused);
    assert!(code == 400 && message.contains(duplicate), "{message}");
}

/// Checks that a write to the `scale` subresource that changes the replicas makes its manager the owner of the
/// replicas. After a write of zero replicas, the field has no owner until a manager applies it.
#[tokio::test]
async fn scaling_takes_over_the_replicas_unless_it_sets_zero() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    deployments.apply("web", "one", &deployment("web")).await;
    let scale = |replicas: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": namespace},
            "spec": {"replicas": replicas}})
    };
    let owners = async || {
        let found = deployments.get("/web").await.json;
        let owners: Vec<String> = managers(&found)
            .into_iter()
            .filter(|(.., fields)| !fields["f:spec"]["f:replicas"].is_null())
            .map(|(name, ..)| name.to_owned())
            .collect();
        (found["spec"]["replicas"].as_u64(), owners)
    };
    let put = async |manager: &str, replicas: u32| {
        let rest = format!("/web/scale?fieldManager={manager}");
        let response = deployments.put(&rest, &scale(replicas)).await;
        assert_eq!(response.code, 200, "{}", response.text);
    };
    put("two", 2).await;
    assert_eq!(
        owners().await,
        (Some(2), vec!["one".to_owned()]),
        "a write of equal replicas must not change the owner"
    );
    put("two", 3).await;
    assert_eq!(owners().await, (Some(3), vec!["two".to_owned()]));
    put("three", 4).await;
    assert_eq!(owners().await, (Some(4), vec!["three".to_owned()]));
    // Zero replicas count as unset, and unset fields have no owner.
    put("three", 0).await;
    assert_eq!(owners().await, (Some(0), Vec::new()));
    put("three", 5).await;
    assert_eq!(owners().await, (Some(5), Vec::new()));
    let applied = deployments
        .apply("web/scale", "four&force=true", &scale(6))
        .await;
    assert_eq!(applied.code, 200, "{}", applied.text);
    put("five", 7).await;
    assert_eq!(owners().await, (Some(7), vec!["five".to_owned()]));
}

/// Checks the order of the errors of an apply: duplicate list items first, then conflicts, then invalid values.
#[tokio::test]
async fn apply_reports_duplicate_items_then_conflicts_then_invalid_values() {
    let server = server().await;
    let namespace = server.namespace().await;
    let slices = Objects::at(
        &server,
        format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
    );
    let slice = |addresses: Value| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"},
            "addressType": "IPv4", "endpoints": [{"addresses": addresses}], "ports": []})
    };
    slices.apply("a", "one", &slice(json!(["10.0.0.1"]))).await;
    let twice = slice(json!(["10.0.0.2", "10.0.0.2"]));
    let why = "failed to create typed patch object (/a; discovery.k8s.io/v1, Kind=EndpointSlice): \
               .endpoints[0].addresses: duplicate entries for key [=\"10.0.0.2\"]";
    assert_eq!(
        status_of(&slices.apply("a", "two", &twice).await),
        (500, why)
    );

    let path = format!("/api/v1/namespaces/{namespace}/limitranges");
    let ranges = Objects::at(&server, path);
    let range = |cpu: &str| {
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": cpu}}]}})
    };
    ranges.apply("a", "one", &range("1")).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.limits";
    let refused = ranges.apply("a", "two", &range("x")).await;
    assert_eq!(status_of(&refused), (409, why));
}
