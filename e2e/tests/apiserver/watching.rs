//! Watches: the order of events, resumption from a version, selectors, initial events, bookmarks, and expired versions.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, map, status_of, version};
use crate::harness::server;
use crate::harness::server::ROOT_CA;

/// Returns the events of a watch until it times out after two seconds.
async fn events(maps: &Objects<'_>, query: &str) -> Vec<Value> {
    let response = maps
        .get(&format!("?watch=true&timeoutSeconds=2&{query}"))
        .await;
    assert_eq!(response.code, 200, "{}", response.text);
    let line = |line: &str| serde_json::from_str(line).unwrap();
    let events = response.text.lines().map(line);
    events
        .filter(|event: &Value| event["object"]["metadata"]["name"] != ROOT_CA)
        .collect()
}

/// Returns the type and the object name of each event, such as `MODIFIED a`.
fn summaries(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .iter()
        .map(|event| {
            let name = text(&event["object"]["metadata"]["name"]);
            format!("{} {name}", text(&event["type"]))
        })
        .collect()
}

/// Checks that a watch from an earlier version returns all later events in order. With a selector, the watch returns
/// the events of matching objects.
#[tokio::test]
async fn watches_resume_from_any_stored_version() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let first = maps.create(&map("a", json!({}), json!({"l": "x"}))).await;
    let from = format!("resourceVersion={}", version(&first));
    let second = maps.create(&map("b", json!({}), json!({"l": "x"}))).await;
    let relabel = json!({"metadata": {"labels": {"l": "y"}}});
    let changed = maps.merge("/b", &relabel).await.json;
    assert_eq!(maps.delete("/a", &Value::Null).await.code, 200);

    let all = events(&maps, &from).await;
    assert_eq!(summaries(&all), ["ADDED b", "MODIFIED b", "DELETED a"]);
    assert_eq!(all[0]["object"], second);
    assert_eq!(all[1]["object"], changed);
    // The event of a deletion contains the last state of the object, with the version of the deletion.
    let (mut deleted, mut was) = (all[2]["object"].clone(), first.clone());
    let versions = [&second, &changed, &deleted].map(|o| version(o).parse::<u64>().unwrap());
    assert!(versions.is_sorted(), "{versions:?}");
    for object in [&mut deleted, &mut was] {
        object["metadata"]["resourceVersion"] = Value::Null;
    }
    assert_eq!(deleted, was);
    let rest = format!("resourceVersion={}", version(&changed));
    assert_eq!(summaries(&events(&maps, &rest).await), ["DELETED a"]);

    // When an object stops matching the selector, the watch reports a deletion with the last matching state. When an
    // object starts to match, the watch reports an addition.
    let old = events(&maps, &format!("{from}&labelSelector=l%3Dx")).await;
    assert_eq!(summaries(&old), ["ADDED b", "DELETED b", "DELETED a"]);
    assert_eq!(old[1]["object"]["metadata"]["labels"], json!({"l": "x"}));
    assert_eq!(version(&old[1]["object"]), version(&changed));
    let new = events(&maps, &format!("{from}&labelSelector=l%3Dy")).await;
    assert_eq!(summaries(&new), ["ADDED b"]);
    let one = events(&maps, &format!("{from}&fieldSelector=metadata.name%3Da")).await;
    assert_eq!(summaries(&one), ["DELETED a"]);
}

/// Checks that a watch starts with an `ADDED` event for each existing object if the query has no version or version 0,
/// or has `sendInitialEvents=true`. If the query also has `allowWatchBookmarks=true`, a bookmark marks the end of the
/// events that `sendInitialEvents=true` requests.
#[tokio::test]
async fn watches_send_initial_events_on_request() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({"l": "x"}))).await;
    let last = maps.create(&map("b", json!({}), json!({}))).await;
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let from_last = format!(
        "{streaming}&allowWatchBookmarks=true&resourceVersion={}",
        version(&last)
    );
    for (query, expected) in [
        ("", &["ADDED a", "ADDED b"][..]),
        ("resourceVersion=0", &["ADDED a", "ADDED b"]),
        (streaming, &["ADDED a", "ADDED b"]),
        (from_last.as_str(), &["ADDED a", "ADDED b", "BOOKMARK "]),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            &[],
        ),
        ("labelSelector=l%3Dx", &["ADDED a"]),
    ] {
        assert_eq!(summaries(&events(&maps, query).await), expected, "{query}");
    }
    let streamed = events(&maps, &format!("{streaming}&allowWatchBookmarks=true")).await;
    assert_eq!(summaries(&streamed), ["ADDED a", "ADDED b", "BOOKMARK "]);
    let bookmark = &streamed[2]["object"];
    let end = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {
        "resourceVersion": version(bookmark), "annotations": {"k8s.io/initial-events-end": "true"}}});
    assert_eq!(*bookmark, end);
    let number = |object: &Value| version(object).parse::<u64>().unwrap();
    assert!(number(bookmark) >= number(&last));
    // A client can resume from the bookmark.
    maps.create(&map("c", json!({}), json!({}))).await;
    let on = format!("resourceVersion={}", version(bookmark));
    assert_eq!(summaries(&events(&maps, &on).await), ["ADDED c"]);
}

/// Checks the responses to invalid options of a watch, and the values of `watch` that select a list instead of a watch.
#[tokio::test]
async fn invalid_watch_options_are_refused() {
    let server = server().await;
    let maps = Objects::maps(&server, "default");
    let refused = |why: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {why}");
    let needs = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let alone = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let exact =
        "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    for (query, code, message) in [
        ("sendInitialEvents=true", 422, refused(needs)),
        ("sendInitialEvents=foo", 422, refused(needs)),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            refused(&format!("[{needs}, {exact}]")),
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=1",
            422,
            refused(alone),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=1",
            422,
            refused(&format!("[{alone}, {exact}]")),
        ),
        (
            "timeoutSeconds=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned(),
        ),
        (
            "resourceVersion=x",
            500,
            "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax".to_owned(),
        ),
    ] {
        let response = maps.get(&format!("?watch=1&{query}")).await;
        assert_eq!(status_of(&response), (code, message.as_str()), "{query}");
    }
    // Only `false` and `0` disable the watch.
    for (flag, watches) in [("yes", true), ("", true), ("false", false), ("0", false)] {
        let rest = format!("?watch={flag}&timeoutSeconds=1&labelSelector=none%3Dnone");
        let text = maps.get(&rest).await.text;
        assert_eq!(!text.contains("ConfigMapList"), watches, "{flag}: {text}");
    }
    let namespaces = Objects::at(&server, "/api/v1/namespaces");
    let one = namespaces.get("/default?watch=true").await;
    assert_eq!(one.json["kind"], "Namespace", "{}", one.text);
}

/// Checks that a watch from a version that is no longer stored sends one `ERROR` event with code 410.
#[tokio::test]
async fn watches_from_expired_versions_return_410() {
    let server = server::with_short_history().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let first = maps.create(&map("a", json!({}), json!({}))).await;
    let large = "x".repeat(60_000);
    let mut count = 0;
    let from = format!("resourceVersion={}", version(&first));
    let status = berth_e2e::eventually("the version to expire", async || {
        for _ in 0..100 {
            count += 1;
            let patch = json!({"data": {"k": format!("{count}{large}")}});
            assert_eq!(maps.merge("/a", &patch).await.code, 200);
        }
        let events = events(&maps, &from).await;
        match events.as_slice() {
            [one] if one["type"] == "ERROR" => Ok(one["object"].clone()),
            _ => Err("the version is still available"),
        }
    })
    .await;
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
}

/// Checks that eight concurrent writers get a distinct version for each write, and that each increment of a shared
/// counter is stored once.
#[tokio::test]
async fn concurrent_writers_get_distinct_versions_and_lose_no_update() {
    const WRITERS: usize = 8;
    const WRITES: usize = 10;
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let secrets = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/secrets"));
    let first = maps.create(&map("a", json!({"sum": "0"}), json!({}))).await;
    secrets.create(&json!({"metadata": {"name": "a"}})).await;
    // Each writer increments the value that it has read. After a conflict, the writer reads the value again.
    let add = async |writer: usize| {
        let mut versions = Vec::new();
        for write in 0..WRITES {
            let note = json!({"stringData": {format!("w{writer}"): write.to_string()}});
            versions.push(version(&secrets.merge("/a", &note).await.json).to_owned());
            loop {
                let mut object = maps.get("/a").await.json;
                let sum: usize = object["data"]["sum"].as_str().unwrap().parse().unwrap();
                object["data"]["sum"] = json!((sum + 1).to_string());
                let response = maps.put("/a", &object).await;
                if response.code == 200 {
                    versions.push(version(&response.json).to_owned());
                    break;
                }
                let why = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
                           apply your changes to the latest version and try again";
                assert_eq!(status_of(&response), (409, why));
            }
        }
        versions
    };
    let versions = join_all((0..WRITERS).map(add)).await;
    let sum = maps.get("/a").await.json["data"]["sum"].clone();
    assert_eq!(sum, (WRITERS * WRITES).to_string());
    // All kinds share one sequence of versions, and each version is unique.
    let mut writers = BTreeMap::new();
    for (writer, own) in versions.iter().enumerate() {
        let own: Vec<u64> = own.iter().map(|v| v.parse().unwrap()).collect();
        assert!(own.is_sorted(), "{own:?}");
        for version in own {
            assert_eq!(writers.insert(version, writer), None, "{version}");
        }
    }
    let from = format!("resourceVersion={}", version(&first));
    let events = events(&maps, &from).await;
    let sums: Vec<&str> = events
        .iter()
        .map(|event| event["object"]["data"]["sum"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (1..=WRITERS * WRITES).map(|n| n.to_string()).collect();
    assert_eq!(
        sums, expected,
        "the watch must report each increment once and in order"
    );
}

/// Checks that a watch that requests YAML gets status 406.
#[tokio::test]
async fn watches_have_no_yaml_format() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let yaml = maps.get_as("?watch=true&timeoutSeconds=1", "application/yaml");
    assert_eq!(yaml.await.code, 406);
}

/// Checks that a watch with `allowWatchBookmarks` sends a bookmark when it times out, and that a watch without this
/// option sends no event.
#[tokio::test]
async fn watches_send_a_bookmark_before_they_end() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let from = maps.create(&map("a", json!({}), json!({}))).await;
    let path = |rest: &str| {
        format!(
            "?watch=true&timeoutSeconds=5&resourceVersion={}{rest}",
            version(&from)
        )
    };
    // Write another object during the watch, so that the bookmark can have a newer version than the start of the watch.
    let others = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/secrets"));
    let secret = json!({"metadata": {"name": "s"}});
    let (with, without) = (path("&allowWatchBookmarks=true"), path(""));
    let (with, without, other) =
        tokio::join!(maps.get(&with), maps.get(&without), others.create(&secret),);
    assert_eq!(without.text, "");
    let with = with.text;
    let events: Vec<Value> = with
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "BOOKMARK", "{with}");
    let number = |object: &Value| version(object).parse::<u64>().unwrap();
    assert!(number(&last["object"]) >= number(&from), "{with} {other}");
    let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"resourceVersion": version(&last["object"])}});
    assert_eq!(last["object"], bookmark);
}
