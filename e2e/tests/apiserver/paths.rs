//! Tests of long paths and queries, and of the timeouts of watches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::objects::{Objects, map, status_of};
use crate::harness::server;

/// Checks that a long unknown query parameter has no effect, and that the server looks up an object name of any length.
#[tokio::test]
async fn long_queries_and_names_are_read() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let response = maps.get(&format!("?{}", "a".repeat(60_000))).await;
    let items = response.json["items"].as_array().map(Vec::len);
    assert_eq!((response.code, items), (200, Some(server.initial_maps())));
    let name = "a".repeat(9000);
    let response = maps.get(&format!("/{name}")).await;
    let why = format!("configmaps \"{name}\" not found");
    assert_eq!(status_of(&response), (404, why.as_str()));
}

/// Checks that a watch sends its events and ends after `timeoutSeconds`.
#[tokio::test]
async fn watches_end_after_their_timeout() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    maps.create(&map("a", json!({}), json!({}))).await;
    let watch = async |seconds: i32| {
        let query = format!("?watch=true&timeoutSeconds={seconds}");
        let ended = tokio::time::timeout(Duration::from_mins(1), maps.get(&query)).await;
        ended.unwrap()
    };
    let response = watch(1).await;
    let all = 1 + server.initial_maps();
    assert_eq!((response.code, response.text.lines().count()), (200, all));
    // A negative timeout ends the watch at once, perhaps before the first event.
    let response = watch(-5).await;
    assert!(
        response.code == 200 && response.text.lines().count() <= all,
        "{}",
        response.text
    );
    let one: Value = maps.get("/a?watch=true&timeoutSeconds=1").await.json;
    assert_eq!(one["kind"], "ConfigMap");
}
