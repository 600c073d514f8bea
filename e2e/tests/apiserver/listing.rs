//! Tests of requests that get or list objects: pages, resource versions, selectors and response formats.

use serde_json::{Value, json};

use crate::harness::content_type::MERGE;
use crate::harness::objects::{Objects, ResponseStatus, map, names, status_of, version};
use crate::harness::server;
use crate::harness::server::{ROOT_CA, TestServer};

/// Creates the ConfigMaps `c0` to `c4`. Their label `odd` is `true` for `c1` and `c3`, and `false` for the others.
async fn five_maps(server: &TestServer) -> Objects<'_> {
    let namespace = server.namespace().await;
    let maps = Objects::maps(server, &namespace);
    for i in 0..5 {
        let odd = json!({"odd": (i % 2 == 1).to_string()});
        maps.create(&map(&format!("c{i}"), json!({"i": i.to_string()}), odd))
            .await;
    }
    maps
}

/// Checks that all pages of a list show the objects at the resource version of the first page.
#[tokio::test]
async fn pages_are_from_one_snapshot() {
    let server = server().await;
    let maps = five_maps(&server).await;
    let page = maps.get("?limit=2").await;
    assert_eq!(names(&page), ["c0", "c1"]);
    let left = 3 + server.initial_maps();
    assert_eq!(page.json["metadata"]["remainingItemCount"], left);
    let token = page.json["metadata"]["continue"].as_str().unwrap();
    // Later pages do not show changes that were made after the first page.
    assert_eq!(maps.delete("/c4", &Value::Null).await.code, 200);
    maps.create(&map("c2b", json!({}), json!({}))).await;
    let rest = maps.get(&format!("?limit=10&continue={token}")).await;
    assert_eq!(names(&rest), ["c2", "c3", "c4"]);
    assert_eq!(version(&rest.json), version(&page.json));
    let both = maps
        .get(&format!("?resourceVersion=1&continue={token}"))
        .await;
    let why = "specifying resource version is not allowed when using continue";
    assert_eq!(status_of(&both), (400, why));
    assert_eq!(rest.json["metadata"].get("continue"), None);
    // For a list with a selector, the server omits the number of remaining items: it would have to filter all items.
    let odd = maps.get("?limit=1&labelSelector=odd%3Dtrue").await;
    assert_eq!(names(&odd), ["c1"]);
    assert!(odd.json["metadata"]["continue"].is_string());
    assert_eq!(odd.json["metadata"].get("remainingItemCount"), None);
    for limit in [-1, 0, 5, 500] {
        let all = maps.get(&format!("?limit={limit}")).await;
        assert_eq!(names(&all), ["c0", "c1", "c2", "c2b", "c3"], "{limit}");
    }
}

/// Checks that a list with `resourceVersionMatch=Exact` shows the objects at the requested resource version. Other
/// lists show a state that is at least as new as this version.
#[tokio::test]
async fn lists_honour_the_requested_version() {
    let server = server().await;
    let maps = five_maps(&server).await;
    let before = version(&maps.get("").await.json).to_owned();
    assert_eq!(maps.delete("/c0", &Value::Null).await.code, 200);
    let old = ["c0", "c1", "c2", "c3", "c4"];
    let exact = maps
        .get(&format!(
            "?resourceVersionMatch=Exact&resourceVersion={before}"
        ))
        .await;
    assert_eq!(names(&exact), old);
    assert_eq!(version(&exact.json), before);
    for query in [
        String::new(),
        "?resourceVersion=0".to_owned(),
        "?resourceVersionMatch=NotOlderThan&resourceVersion=0".to_owned(),
        format!("?resourceVersion={before}"),
        format!("?resourceVersionMatch=NotOlderThan&resourceVersion={before}"),
    ] {
        // The list is at least as new as requested. It may omit the last write, because the server may use a cache.
        let list = berth_e2e::eventually("the deletion to be visible", async || {
            let list = maps.get(&query).await;
            if names(&list) == old[1..] {
                Ok(list)
            } else {
                Err(list.text)
            }
        })
        .await;
        let shown: u64 = version(&list.json).parse().unwrap();
        assert!(shown > before.parse().unwrap(), "{query}: {shown}");
    }
    for rest in ["/c1", "/c1?resourceVersion=0"] {
        assert_eq!(maps.get(rest).await.json["data"], json!({"i": "1"}));
    }
}

/// Checks that a list request with an invalid option gets an error, and that a collection does not support HEAD, PUT
/// and PATCH.
#[tokio::test]
async fn invalid_list_options_are_refused() {
    let server = server().await;
    let maps = Objects::maps(&server, "default");
    let options =
        |why: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {why}");
    let cases = [
        (
            "?resourceVersionMatch=Exact",
            422,
            options("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "?resourceVersionMatch=Foo&resourceVersion=1",
            422,
            options("Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\""),
        ),
        (
            "?resourceVersionMatch=Exact&resourceVersion=0",
            422,
            options("Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "?continue=abc&resourceVersionMatch=Exact&resourceVersion=1",
            422,
            options("Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "?continue=abc",
            400,
            "invalid continue token: continue key is not valid: "
                .to_owned(),
        ),
        (
            "?sendInitialEvents=true",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
                .to_owned(),
        ),
        ("?limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        ("?timeoutSeconds=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        (
            "?resourceVersion=x",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax"
                .to_owned(),
        ),
        (
            "/a?resourceVersion=x",
            500,
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax".to_owned(),
        ),
        (
            "?fieldSelector=spec.foo%3D1",
            400,
            String::new(),
        ),
    ];
    for (query, code, message) in cases {
        let response = maps.get(query).await;
        let ResponseStatus(found_code, found) = status_of(&response);
        assert!(
            found_code == code && found.starts_with(&message),
            "{query}: {found}"
        );
    }
    let pods = Objects::at(&server, "/api/v1/namespaces/default/pods");
    let unknown = pods.get("?fieldSelector=spec.foo%3D1").await;
    assert_eq!(
        status_of(&unknown),
        (400, "field label not supported: spec.foo")
    );
    for method in ["HEAD", "PUT", "PATCH"] {
        let response = maps.send(method, "", &[MERGE], "").await;
        assert_eq!(response.code, 405, "{method}");
    }
}

/// Checks that a request for a resource version that does not exist yet gets 504 and the header `Retry-After`.
#[tokio::test]
async fn future_versions_cannot_be_read() {
    let server = server().await.without_retries().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let future = "999999999";
    for rest in [
        format!("/a?resourceVersion={future}"),
        format!("?resourceVersion={future}"),
        format!("?resourceVersionMatch=Exact&resourceVersion={future}"),
        format!("?resourceVersionMatch=NotOlderThan&resourceVersion={future}"),
    ] {
        let response = maps.get(&rest).await;
        let ResponseStatus(code, message) = status_of(&response);
        assert_eq!((code, &response.json["reason"]), (504, &json!("Timeout")));
        let begins = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(message.starts_with(&begins), "{rest}: {message}");
        let details = json!({"retryAfterSeconds": 1, "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
        assert_eq!(response.json["details"], details, "{rest}");
        assert_eq!(response.headers["retry-after"], "1");
    }
}

/// Checks that a list contains exactly the objects that match the label selector and the field selector.
#[tokio::test]
async fn selectors_limit_lists() {
    let server = server().await;
    let maps = five_maps(&server).await;
    for (query, expected) in [
        ("?labelSelector=odd%3Dtrue", &["c1", "c3"][..]),
        ("?labelSelector=odd+notin+(true)", &["c0", "c2", "c4"]),
        ("?labelSelector=!odd", &[]),
        ("?fieldSelector=metadata.name%3Dc1", &["c1"]),
        (
            "?fieldSelector=metadata.name!%3Dc1",
            &["c0", "c2", "c3", "c4"],
        ),
        (
            "?fieldSelector=metadata.name%3Dc1&labelSelector=odd%3Dfalse",
            &[],
        ),
    ] {
        assert_eq!(names(&maps.get(query).await), expected, "{query}");
    }
}

/// Checks that the items of a list have no `kind` and `apiVersion` if the kind is built in. Items of custom kinds have
/// both fields.
#[tokio::test]
async fn items_of_built_in_kinds_omit_kind_and_version() {
    let server = server().await;
    let maps = five_maps(&server).await;
    let list = maps.get("").await.json;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("ConfigMapList"), &json!("v1"))
    );
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap();
        let mut object = maps.get(&format!("/{name}")).await.json;
        let members = object.as_object_mut().unwrap();
        assert_eq!(members.remove("kind"), Some(json!("ConfigMap")));
        assert_eq!(members.remove("apiVersion"), Some(json!("v1")));
        assert_eq!(*item, object);
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = crate::harness::definitions::definition(json!({"type": "object"}));
    let kind = crate::harness::definitions::Kind::install(&server, &definition).await;
    let definitions = Objects::at(&server, definitions).get("?limit=1").await;
    assert_eq!(definitions.json["items"][0].get("kind"), None);
    kind.create("a", &json!({})).await;
    let things = Objects::at(&server, kind.path("v1")).get("").await.json;
    assert_eq!(things["items"][0]["kind"], "Thing");
    assert_eq!(
        things["items"][0]["apiVersion"],
        format!("{}/v1", kind.group)
    );
}

/// Checks that the `Accept` header selects partial metadata of objects and lists. An unknown or unsuitable format gets
/// 406.
#[tokio::test]
async fn responses_have_the_requested_format() {
    let server = server().await;
    let maps = five_maps(&server).await;
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let partials = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let object = maps.get("/c1").await.json;
    let found = maps.get_as("/c1", partial).await.json;
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"]});
    assert_eq!(found, expected);
    let list = maps
        .get_as("?fieldSelector=metadata.name%3Dc1", partials)
        .await;
    assert_eq!(list.json["kind"], "PartialObjectMetadataList");
    assert_eq!(list.json["items"], json!([expected]));
    for (rest, accept) in [
        ("", partial),
        ("/c1", partials),
        ("/c1", "application/json;as=Foo;v=v1;g=meta.k8s.io"),
        ("", "application/json;as=Table;v=v2;g=meta.k8s.io"),
        ("", "text/html"),
    ] {
        let response = maps.get_as(rest, accept).await;
        assert_eq!(
            (response.code, &response.json["reason"]),
            (406, &json!("NotAcceptable")),
            "{accept}"
        );
    }
}

/// Checks the 404 responses for a missing object, a missing resource and an unknown path. A list in a missing namespace
/// is empty.
#[tokio::test]
async fn missing_objects_return_404() {
    let server = server().await;
    for (path, message) in [
        (
            "/api/v1/namespaces/default/configmaps/none",
            "configmaps \"none\" not found",
        ),
        (
            "/apis/apps/v1/namespaces/none/deployments/x",
            "deployments.apps \"x\" not found",
        ),
    ] {
        let response = server.raw("GET", path, &[], "").await;
        assert_eq!(status_of(&response), (404, message));
    }
    for path in [
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/configmaps/a/b/c",
        "/api/v1/foos",
        "/api/v9/configmaps",
        "/apis/apps/v9/deployments",
    ] {
        let response = server.raw("GET", path, &[], "").await;
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "the server could not find the requested resource", "reason": "NotFound",
            "details": {}, "code": 404});
        assert_eq!(response.json, expected, "{path}");
    }
    for path in ["/foo", "/apis/nothing", "/healthz/nothing"] {
        let response = server.raw("GET", path, &[], "").await;
        assert_eq!(
            (response.code, response.text.as_str()),
            (404, "404 page not found\n")
        );
    }
    let list = server
        .raw("GET", "/api/v1/namespaces/none/configmaps", &[], "")
        .await;
    assert_eq!(names(&list), [""; 0]);
}

/// Checks that a list of 240 kB contains all objects, as JSON, as partial metadata, and as a table.
#[tokio::test]
async fn long_lists_are_complete_in_every_format() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let expected: Vec<String> = (0..120).map(|i| format!("c{i:03}")).collect();
    let long = "long ".repeat(400);
    for name in &expected {
        let mut object = map(name, json!({}), json!({}));
        object["metadata"]["annotations"] = json!({"long": long});
        maps.create(&object).await;
    }
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    for (form, kind, items, name) in [
        (
            "application/json",
            "ConfigMapList",
            "items",
            "/metadata/name",
        ),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "PartialObjectMetadataList",
            "items",
            "/metadata/name",
        ),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            "Table",
            "rows",
            "/object/metadata/name",
        ),
    ] {
        let list = server.raw("GET", &path, &[("accept", form)], "").await;
        assert!(list.text.len() > 120 * long.len(), "{form}");
        assert_eq!(list.json["kind"], kind);
        assert!(
            list.json["metadata"]["resourceVersion"].is_string(),
            "{form}"
        );
        let found: Vec<&str> = list.json[items]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item.pointer(name).and_then(Value::as_str).unwrap())
            .filter(|name| *name != ROOT_CA)
            .collect();
        assert_eq!(found, expected, "{form}");
    }
}
