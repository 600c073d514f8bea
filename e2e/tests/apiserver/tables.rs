//! Responses in the format `Table`, which kubectl requests: the columns of each kind, the rows, and watches.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::objects::{Objects, deployment, map};
use crate::harness::server;

/// The `accept` header of kubectl: a table, or JSON if the server has no table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The columns of each kind, recorded from kube-apiserver. An entry has the path of a resource, and the name, type,
/// format and priority of each column.
const RECORDED: &str = include_str!("data/columns.json");

#[tokio::test]
async fn each_kind_has_the_recorded_columns() {
    let server = server().await;
    let recorded: BTreeMap<String, Vec<(String, String, String, i64)>> =
        serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 35, "{}", recorded.len());
    let mut failures = Vec::new();
    for (path, columns) in recorded {
        let table = Objects::at(&server, path.as_str())
            .get_as("?limit=1", TABLE)
            .await
            .json;
        let found: Vec<_> = table["columnDefinitions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|column| {
                let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
                let priority = column["priority"].as_i64().unwrap_or_default();
                (text("name"), text("type"), text("format"), priority)
            })
            .collect();
        if found != columns {
            failures.push(format!(
                "{path}:\n  expected {columns:?}\n  found    {found:?}"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the first `count` cells of a row.
fn cells(row: &Value, count: usize) -> Value {
    let all = row["cells"].as_array().into_iter().flatten();
    all.take(count).cloned().collect()
}

/// Checks that the parameter `includeObject` selects the part of the object in each row: the metadata by default, no
/// object, or the whole object.
#[tokio::test]
async fn rows_include_the_requested_part_of_the_object() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = Objects::maps(&server, &namespace);
    let object = maps.create(&map("a", json!({"k": "v"}), json!({}))).await;
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
    for (query, shown) in [
        ("", &partial),
        ("?includeObject=Metadata", &partial),
        ("?includeObject=None", &Value::Null),
        ("?includeObject=Object", &object),
    ] {
        for place in ["", "/a"] {
            let table = maps.get_as(&format!("{place}{query}"), TABLE).await.json;
            assert_eq!(table["kind"], "Table", "{table}");
            assert_eq!(cells(&table["rows"][0], 2), json!(["a", 1]));
            assert_eq!(table["rows"][0]["object"], *shown, "{place}{query}");
        }
    }
    let invalid = maps.get_as("?includeObject=Foo", TABLE).await;
    let why = "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', \
               'Object', 'None', or empty";
    assert_eq!((invalid.code, &invalid.json["message"]), (400, &json!(why)));
}

/// Checks that only the first event of a watch in the format `Table` contains the column definitions.
#[tokio::test]
async fn watched_tables_send_columns_once() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let first = deployments.create(&deployment("web")).await;
    let status = json!({"status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}});
    assert_eq!(deployments.merge("/web/status", &status).await.code, 200);
    assert_eq!(
        deployments
            .delete("/web", &json!({"propagationPolicy": "Background"}))
            .await
            .code,
        200
    );
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let query = format!("?watch=true&timeoutSeconds=2&resourceVersion={version}");
    let text = deployments.get_as(&query, TABLE).await.text;
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<Value> = events
        .iter()
        .map(|event| {
            let table = &event["object"];
            json!([
                event["type"],
                table["kind"],
                table["columnDefinitions"].is_array(),
                cells(&table["rows"][0], 4)
            ])
        })
        .collect();
    let cells = json!(["web", "1/2", 2, 1]);
    assert_eq!(
        shown,
        [
            json!(["MODIFIED", "Table", true, cells]),
            json!(["DELETED", "Table", false, cells])
        ]
    );
}

#[tokio::test]
async fn scale_tables_show_desired_and_available_replicas() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    deployments.create(&deployment("web")).await;
    let table = deployments.get_as("/web/scale", TABLE).await.json;
    let names: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(cells(&table["rows"][0], 3), json!(["web", 2, 0]));
}

/// Checks that a review or a token request gets status 406 if the client accepts only tables, and JSON if the client
/// also accepts JSON.
#[tokio::test]
async fn reviews_and_token_requests_have_no_table_format() {
    const ONLY_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let server = server().await;
    let namespace = server.namespace().await;
    let account = json!({"metadata": {"name": "bot"}});
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    server.create(&accounts, account).await;
    let access = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    for (path, body) in [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            access,
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({}),
        ),
        (&format!("{accounts}/bot/token"), json!({"spec": {}})),
    ] {
        for (accept, code) in [(ONLY_TABLE, 406), (TABLE, 201)] {
            let headers = [JSON, ("accept", accept)];
            let response = server.raw("POST", path, &headers, body.to_string()).await;
            assert_eq!(response.code, code, "{path} as {accept}: {}", response.text);
        }
        // The server refuses an unsupported format before it decodes the body.
        let headers = [JSON, ("accept", ONLY_TABLE)];
        let response = server.raw("POST", path, &headers, "no JSON").await;
        assert_eq!(response.code, 406, "{path}: {}", response.text);
    }
}
