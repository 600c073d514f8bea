//! Tests with the requests of k9s: missing resources, the scale and restart of a Deployment, and the cordoning of a
//! node.

use serde_json::json;

use crate::harness::content_type::{JSON, STRATEGIC};
use crate::harness::server;
use crate::protobuf::{self, field};

/// Header for responses in JSON, which the tests can read. k9s itself prefers protobuf.
const ACCEPT: (&str, &str) = ("accept", "application/json");

/// Checks that the 404 response for a missing object contains the name of the object, and that the 404 response for a
/// missing resource contains no name. Clients distinguish the two by the name.
#[tokio::test]
async fn missing_resources_differ_from_missing_objects() {
    let server = server().await;
    let namespace = server.namespace().await;
    let within = format!("/api/v1/namespaces/{namespace}");
    let watch = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (method, path) in [
        ("GET", format!("{within}/nodes?limit=500&resourceVersion=0")),
        ("GET", format!("{within}/persistentvolumes?{watch}")),
        ("GET", "/api/users?limit=500&resourceVersion=0".to_owned()),
        (
            "PATCH",
            format!("{within}/pods/missing/nothing?fieldManager=k9s"),
        ),
    ] {
        let response = server.raw(method, &path, &[STRATEGIC, ACCEPT], "{}").await;
        assert_eq!(response.code, 404, "{path}: {}", response.text);
        assert_eq!(response.json["reason"], "NotFound", "{path}");
        assert_eq!(response.json["details"], json!({}), "{path}");
    }
    let path = format!("{within}/pods/missing/log?follow=true&tailLines=100&timestamps=true");
    let missing = server.raw("GET", &path, &[], "").await;
    assert_eq!(missing.code, 404, "{}", missing.text);
    assert_eq!(
        missing.json["details"],
        json!({"kind": "pods", "name": "missing"})
    );
}

/// Checks that a Deployment can be scaled with a Scale in protobuf, and restarted with a strategic merge patch of an
/// annotation.
#[tokio::test]
async fn a_deployment_is_scaled_in_protobuf_and_restarted() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
    });
    let created = server
        .raw("POST", &deployments, &[JSON], deployment.to_string())
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    let version = created.json["metadata"]["resourceVersion"]
        .as_str()
        .unwrap();

    let meta = [
        field(1, b"web"),
        field(2, b""),
        field(3, namespace.as_bytes()),
        field(6, version.as_bytes()),
        field(8, b""),
    ]
    .concat();
    let scale = [field(1, &meta), field(2, &[8, 5]), field(3, &[8, 0])].concat();
    let scaled = server
        .raw(
            "PUT",
            &format!("{deployments}/web/scale?timeout=2m0s"),
            &[("content-type", protobuf::MEDIA_TYPE), ACCEPT],
            protobuf::message("autoscaling/v1", "Scale", &scale),
        )
        .await;
    assert_eq!(scaled.code, 200, "{}", scaled.text);
    assert_eq!(scaled.json["spec"]["replicas"], 5);

    let annotation = "kubectl.kubernetes.io/restartedAt";
    let body = json!({"spec": {"template": {"metadata": {"annotations": {annotation: "now"}}}}});
    let restarted = server
        .raw(
            "PATCH",
            &format!("{deployments}/web?fieldManager=kubectl-rollout&timeout=2m0s"),
            &[STRATEGIC, ACCEPT],
            body.to_string(),
        )
        .await;
    assert_eq!(restarted.code, 200, "{}", restarted.text);
    let (spec, metadata) = (&restarted.json["spec"], &restarted.json["metadata"]);
    assert_eq!(spec["replicas"], 5);
    assert_eq!(
        spec["template"]["metadata"]["annotations"][annotation],
        "now"
    );
    assert_eq!(metadata["generation"], 3);
}

/// Checks that a strategic merge patch sets `spec.unschedulable` of a node, and that a patch with null removes this
/// field.
#[tokio::test]
async fn a_node_is_cordoned_and_uncordoned() {
    let server = server().await;
    let name = format!("n-{}", uuid::Uuid::new_v4().simple());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let created = server
        .raw("POST", "/api/v1/nodes", &[JSON], node.to_string())
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("/api/v1/nodes/{name}?timeout=2m0s");
    for (wish, expected) in [(json!(true), json!(true)), (json!(null), json!(null))] {
        let body = json!({"spec": {"unschedulable": wish}}).to_string();
        let patched = server.raw("PATCH", &path, &[STRATEGIC, ACCEPT], body).await;
        assert_eq!(patched.code, 200, "{}", patched.text);
        assert_eq!(patched.json["spec"]["unschedulable"], expected);
    }
    let path = format!("/api/v1/nodes/{name}");
    let deleted = server.raw("DELETE", &path, &[], "").await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
}
