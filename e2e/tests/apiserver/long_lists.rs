//! Test of long lists, which the server sends in parts.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, map};
use crate::harness::server;
use crate::harness::server::ROOT_CA;

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
