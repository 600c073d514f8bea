//! Tests with the requests of Helm. Version 3 sends strategic merge patches, which are the result of a three-way merge.
//! Version 4 sends apply patches. Both versions store releases as Secrets, which they send in protobuf.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::{APPLY, JSON, MERGE, STRATEGIC};
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};
use crate::protobuf::{self, field};

/// Query of each apply request of Helm 4.
const APPLIES: &str = "fieldManager=helm&fieldValidation=Strict&force=false";

/// Encodes an entry of a string map in protobuf. `number` is the number of the map's field.
fn entry(number: u8, key: &str, value: &str) -> Vec<u8> {
    let pair = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    field(number, &pair)
}

/// Encodes the Secret of a release with this status in protobuf.
fn release(status: &str) -> Vec<u8> {
    let meta = [
        field(1, b"sh.helm.release.v1.web.v1"),
        field(8, b""),
        entry(11, "name", "web"),
        entry(11, "owner", "helm"),
        entry(11, "status", status),
        entry(11, "version", "1"),
    ]
    .concat();
    let secret = [
        field(1, &meta),
        entry(2, "release", "H4sIAAAA"),
        field(3, b"helm.sh/release.v1"),
    ]
    .concat();
    protobuf::message("v1", "Secret", &secret)
}

fn metadata() -> Value {
    json!({
        "name": "web",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(),
        "spec": {
            "type": "ClusterIP", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    })
}

fn deployment(replicas: u32) -> Value {
    let ports = json!([{"name": "http", "containerPort": 80, "protocol": "TCP"}]);
    let container = json!({"name": "web", "image": "nginx:1.16.0", "ports": ports});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    })
}

async fn create(server: &TestServer, collection: &str, object: &Value) -> ApiResponse {
    let path = format!("{collection}?fieldManager=helm");
    server.raw("POST", &path, &[JSON], object.to_string()).await
}

async fn apply(server: &TestServer, path: &str, options: &str, object: &Value) -> ApiResponse {
    let path = format!("{path}?{APPLIES}{options}");
    server
        .raw("PATCH", &path, &[APPLY], object.to_string())
        .await
}

async fn get(server: &TestServer, path: &str) -> ApiResponse {
    server.raw("GET", path, &[], "").await
}

/// Checks that the Secret of a release can be created and replaced, and that label selectors find it by its current
/// labels.
#[tokio::test]
async fn releases_are_secrets_selected_by_label() {
    let server = server().await;
    let secrets = format!("/api/v1/namespaces/{}/secrets", server.namespace().await);
    let headers = [
        ("content-type", protobuf::MEDIA_TYPE),
        ("accept", "application/json"),
    ];
    let created = server
        .raw("POST", &secrets, &headers, release("pending-install"))
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.json["type"], "helm.sh/release.v1");
    assert_eq!(created.json["data"]["release"], "SDRzSUFBQUE=");

    let path = format!("{secrets}/sh.helm.release.v1.web.v1");
    let replaced = server
        .raw("PUT", &path, &headers, release("deployed"))
        .await;
    assert_eq!(replaced.code, 200, "{}", replaced.text);
    for (selector, found) in [
        ("name%3Dweb%2Cowner%3Dhelm", 1),
        ("name%3Dweb%2Cowner%3Dhelm%2Cstatus%3Ddeployed", 1),
        ("name%3Dweb%2Cowner%3Dhelm%2Cstatus%3Dpending-install", 0),
        ("owner%3Dhelm", 1),
    ] {
        let list = get(&server, &format!("{secrets}?labelSelector={selector}")).await;
        let items = list.json["items"].as_array().unwrap();
        assert_eq!(items.len(), found, "{selector}: {}", list.text);
    }
}

/// Checks that a strategic merge patch replaces a port of a Service and of a Deployment. A patch with an invalid port
/// gets 422 and changes nothing.
#[tokio::test]
async fn three_way_patches_replace_ports_and_fail_as_a_whole() {
    let server = server().await;
    let namespace = server.namespace().await;
    let services = format!("/api/v1/namespaces/{namespace}/services");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    for (collection, object) in [(&services, service()), (&deployments, deployment(1))] {
        let created = create(&server, collection, &object).await;
        assert_eq!(created.code, 201, "{}", created.text);
    }
    let of_service = |port: u32| {
        json!({"spec": {"$setElementOrder/ports": [{"port": port}], "ports": [
            {"name": "http", "port": port, "protocol": "TCP", "targetPort": "http"},
            {"$patch": "delete", "port": 80}]}})
    };
    let of_deployment = |port: u32| {
        json!({"spec": {"replicas": 2, "template": {"spec": {
            "$setElementOrder/containers": [{"name": "web"}],
            "containers": [{"name": "web", "$setElementOrder/ports": [{"containerPort": port}], "ports": [
                {"containerPort": port, "name": "http", "protocol": "TCP"},
                {"$patch": "delete", "containerPort": 80}]}]}}}})
    };
    for (collection, body, code, url) in [
        (&services, of_service(99_999_999), 422, "/spec/ports/0/port"),
        (&services, of_service(81), 200, "/spec/ports"),
        (
            &deployments,
            of_deployment(99_999_999),
            422,
            "/spec/template/spec/containers/0/ports/0/containerPort",
        ),
        (
            &deployments,
            of_deployment(81),
            200,
            "/spec/template/spec/containers/0/ports",
        ),
    ] {
        let path = format!("{collection}/web?fieldManager=helm");
        let response = server
            .raw("PATCH", &path, &[STRATEGIC], body.to_string())
            .await;
        assert_eq!(response.code, code, "{}", response.text);
        let now = get(&server, &format!("{collection}/web")).await.json;
        match (code, now.pointer(url)) {
            (422, Some(number)) => {
                assert_eq!(*number, 80, "{now}");
                let why = "Invalid value: 99999999: must be between 1 and 65535, inclusive";
                assert!(response.text.contains(why), "{}", response.text);
            }
            (_, Some(Value::Array(ports))) => {
                assert_eq!(ports.len(), 1, "{now}");
                let number = ports[0]
                    .get("port")
                    .or_else(|| ports[0].get("containerPort"));
                assert_eq!(number.unwrap(), 81, "{now}");
            }
            _ => panic!("{now}"),
        }
    }
    for collection in [&services, &deployments] {
        let body = r#"{"propagationPolicy":"Background"}"#;
        let path = format!("{collection}/web");
        let deleted = server.raw("DELETE", &path, &[JSON], body).await;
        assert_eq!(deleted.code, 200, "{}", deleted.text);
        assert_eq!(get(&server, &path).await.code, 404);
    }
}

/// Checks that a Service keeps its cluster IP when `helm upgrade --force` replaces it. The manifest in the chart
/// contains no cluster IP.
#[tokio::test]
async fn replaced_services_keep_their_address() {
    let server = server().await;
    let services = format!("/api/v1/namespaces/{}/services", server.namespace().await);
    let created = create(&server, &services, &service()).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let mut object = service();
    object["metadata"]["resourceVersion"] = created.json["metadata"]["resourceVersion"].clone();
    object["spec"]["ports"][0]["port"] = json!(8080);
    let path = format!("{services}/web?fieldManager=helm");
    let replaced = server.raw("PUT", &path, &[JSON], object.to_string()).await;
    assert_eq!(replaced.code, 200, "{}", replaced.text);
    let (before, now) = (&created.json["spec"], &replaced.json["spec"]);
    assert_eq!(now["ports"][0]["port"], 8080);
    assert!(before["clusterIP"].is_string(), "{before}");
    for field in ["clusterIP", "clusterIPs", "ipFamilies"] {
        assert_eq!(before[field], now[field], "{field}");
    }
}

/// Checks that a second equal apply keeps the resource version. After kubectl scales a Deployment, an apply with a
/// different number of replicas gets 409.
#[tokio::test]
async fn an_equal_apply_changes_nothing_and_a_different_one_conflicts_with_kubectl() {
    let server = server().await;
    let namespace = server.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/web");

    let dry_run = apply(&server, &path, "&dryRun=All", &deployment(1)).await;
    assert_eq!(dry_run.code, 201, "{}", dry_run.text);
    assert_eq!(get(&server, &path).await.code, 404);

    let first = apply(&server, &path, "", &deployment(1)).await;
    assert_eq!(first.code, 201, "{}", first.text);
    let again = apply(&server, &path, "", &deployment(1)).await;
    assert_eq!(again.code, 200, "{}", again.text);
    let version = |response: &ApiResponse| response.json["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&first), version(&again));

    let scaled = server
        .raw(
            "PATCH",
            &format!("{path}/scale?fieldManager=kubectl"),
            &[MERGE],
            r#"{"spec":{"replicas":9}}"#,
        )
        .await;
    assert_eq!(scaled.code, 200, "{}", scaled.text);
    let refused = apply(&server, &path, "", &deployment(2)).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    assert_eq!(
        refused.json["message"],
        "Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

/// Checks that a custom resource can be applied, and gets the defaults of its schema, shortly after the creation of its
/// definition.
#[tokio::test]
async fn a_custom_resource_can_be_applied_right_after_its_definition() {
    let server = server().await;
    let namespace = server.namespace().await;
    let group = format!("{namespace}.example.com");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1}}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    let applied = apply(&server, &path, "", &definition).await;
    assert_eq!(applied.code, 201, "{}", applied.text);

    // Helm waits until the definition has the condition Established, and then reads discovery again.
    eventually("the definition to be established", async || {
        let definition = get(&server, &path).await.json;
        let conditions = definition["status"]["conditions"].as_array();
        let established = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        established.then_some(()).ok_or(definition)
    })
    .await;
    let document = format!("apis/{group}/v1");
    eventually("the kind to have a schema", async || {
        let documents = get(&server, "/openapi/v3").await.json;
        let url = &documents["paths"][&document]["serverRelativeURL"];
        let url = url.as_str().ok_or("no document")?;
        let response = get(&server, url).await;
        (response.code == 200).then_some(()).ok_or("no response")
    })
    .await;
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/widgets/w");
    eventually("the kind to be served", async || {
        let applied = apply(&server, &path, "", &widget).await;
        matches!(applied.code, 200 | 201)
            .then_some(())
            .ok_or(applied.text)
    })
    .await;
    assert_eq!(get(&server, &path).await.json["spec"]["size"], 1);
}

/// Checks the responses to the requests that Helm sends while it renders a chart.
#[tokio::test]
async fn charts_can_read_version_schemas_and_objects() {
    let server = server().await;
    let version = get(&server, "/version").await.json;
    let numbers = ["major", "minor"].map(|part| version[part].as_str().unwrap().to_owned());
    assert!(
        numbers.iter().all(|n| n.parse::<u32>().is_ok()),
        "{version}"
    );
    assert!(version["gitVersion"].as_str().unwrap().starts_with('v'));

    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let document = server
        .raw("GET", "/openapi/v2?timeout=32s", &[("accept", accept)], "")
        .await;
    assert_eq!(document.code, 200);
    assert!(
        document.headers["content-type"]
            .to_str()
            .unwrap()
            .contains("protobuf")
    );

    // The function `lookup` in a template reads an object, a list, or a missing object.
    for (path, code) in [
        ("/api/v1/namespaces/default", 200),
        ("/api/v1/namespaces", 200),
        ("/api/v1/namespaces/default/configmaps/missing", 404),
    ] {
        assert_eq!(get(&server, path).await.code, code, "{path}");
    }
}
