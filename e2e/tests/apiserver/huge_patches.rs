//! Test of patches that are too large, or would create objects that are too large.

use serde_json::json;

use crate::harness::objects::{Objects, map, status_of};
use crate::harness::server;

/// Checks that a JSON patch whose `copy` operations would multiply the size of an object gets 422, and that a
/// JSON patch with too many operations gets 413.
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
    let many = vec![json!({"op": "add", "path": "/data/k", "value": "1"}); 10_001];
    let why = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    let response = maps.json_patch("/a", &json!(many)).await;
    assert_eq!(status_of(&response), (413, why));
}
