//! Tests of the HTTP features of discovery and OpenAPI documents: `ETag` headers and media types. The module
//! `discovery` tests the content of these documents.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::objects::Objects;
use crate::harness::server;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Checks that a request with the current `ETag` in `If-None-Match` gets 304 and no body. A request with another tag
/// gets the whole document.
#[tokio::test]
async fn unchanged_documents_are_not_sent_again() {
    let server = server().await;
    for (path, accept) in [
        ("/api", AGGREGATED),
        ("/apis", AGGREGATED),
        ("/openapi/v2", "application/json"),
        ("/openapi/v2", PROTOBUF),
        (
            "/openapi/v3/apis/coordination.k8s.io/v1",
            "application/json",
        ),
    ] {
        let accept = ("accept", accept);
        let first = server.raw("GET", path, &[accept], "").await;
        assert_eq!(first.code, 200, "{path}: {}", first.text);
        let tag = first.headers["etag"].to_str().unwrap();
        assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
        let mut vary = first.headers.get_all("vary").iter();
        assert!(vary.any(|value| value == "Accept"), "{path}");
        // Another test may add a kind between the two requests, which changes the document.
        let again = berth_e2e::eventually("a document to stay unchanged", async || {
            let now = server.raw("GET", path, &[accept], "").await;
            let tag = now.headers["etag"].to_str().unwrap();
            let known = [accept, ("if-none-match", tag)];
            let again = server.raw("GET", path, &known, "").await;
            match (again.code, again.headers["etag"] == tag) {
                (304, true) => Ok(again),
                other => Err(format!("{path}: {other:?}")),
            }
        })
        .await;
        assert_eq!(again.text, "", "{path}");
        let strange = [accept, ("if-none-match", "\"other\"")];
        let other = server.raw("GET", path, &strange, "").await;
        assert!(other.code == 200 && !other.text.is_empty(), "{path}");
    }
    // Discovery that is not aggregated has no `ETag`.
    let plain = server.raw("GET", "/apis", &[], "").await;
    assert_eq!(plain.headers.get("etag"), None);
}

/// Checks that a JSON response has one line break, at its end.
#[tokio::test]
async fn json_responses_are_a_single_line() {
    let server = server().await;
    let space = format!("/api/v1/namespaces/{}", server.namespace().await);
    let (maps, none) = (format!("{space}/configmaps"), format!("{space}/pods/none"));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (path, accept) in [
        (&*space, "application/json"),
        (&maps, "application/json"),
        (&maps, table),
        (&none, "application/json"),
        ("/api", AGGREGATED),
    ] {
        let response = server.raw("GET", path, &[("accept", accept)], "").await;
        let lines = response.text.matches('\n').count();
        assert!(
            response.text.ends_with("}\n") && lines == 1,
            "{path}: {response:?}"
        );
    }
}

/// Checks that a new kind changes the discovery document and its `ETag`, and that the new group gets an OpenAPI
/// document.
#[tokio::test]
async fn changed_documents_have_another_etag() {
    let server = server().await;
    let name = format!("things.{}.example.com", server.namespace().await);
    let (_, group) = name.split_once('.').unwrap();
    let accept = ("accept", AGGREGATED);
    let before = server.raw("GET", "/apis", &[accept], "").await;
    let tag = before.headers["etag"].to_str().unwrap();
    let definition = json!({"metadata": {"name": name}, "spec": {"group": group, "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = Objects::at(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    );
    definitions.create(&definition).await;
    berth_e2e::eventually("the new group", async || {
        let response = server
            .raw("GET", "/apis", &[accept, ("if-none-match", tag)], "")
            .await;
        if response.code == 200 && response.text.contains(group) {
            Ok(())
        } else {
            Err(response.code)
        }
    })
    .await;
    let document = format!("/openapi/v3/apis/{group}/v1");
    let url = berth_e2e::eventually("the schema of the new group", async || {
        let index = server.raw("GET", "/openapi/v3", &[], "").await.json;
        let url = &index["paths"][format!("apis/{group}/v1")]["serverRelativeURL"];
        url.as_str().map(str::to_owned).ok_or("not yet")
    })
    .await;
    let found = server.raw("GET", &url, &[], "").await;
    let tag = found.headers["etag"].to_str().unwrap();
    assert_eq!(url, format!("{document}?hash={}", tag.trim_matches('"')));
    let gone = server
        .raw("GET", "/openapi/v3/apis/nothing/v1", &[], "")
        .await;
    assert_eq!((gone.code, gone.text.as_str()), (404, ""));
    definitions.delete(&format!("/{name}"), &Value::Null).await;
}

/// Checks that a discovery request that accepts only an unsupported format gets 406.
#[tokio::test]
async fn discovery_refuses_other_formats() {
    let server = server().await;
    for path in ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"] {
        let get = async |accept: &str| server.raw("GET", path, &[("accept", accept)], "").await;
        for strange in ["text/html", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
            // The paths `/api` and `/apis` support a format with `as=`: the aggregated format. `Table` is not tested
            // there.
            if strange.contains("as=") && matches!(path, "/api" | "/apis") {
                continue;
            }
            let response = get(strange).await;
            assert_eq!(
                (response.code, &response.json["reason"]),
                (406, &json!("NotAcceptable")),
                "{path} {strange}"
            );
        }
        let either = get("text/html, */*;q=0.1").await;
        assert_eq!(either.headers["content-type"], "application/json", "{path}");
    }
    let none = server
        .raw("GET", "/openapi/v2", &[("accept", "text/html")], "")
        .await;
    assert_eq!(none.code, 406);
    let paths = server.raw("GET", "/", &[], "").await.json;
    for path in [
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/metrics",
        "/openid/v1/jwks",
    ] {
        assert!(
            paths["paths"].as_array().unwrap().contains(&json!(path)),
            "{path}"
        );
    }
}

/// Checks that a kind whose schema preserves unknown fields at its root appears in OpenAPI v2 and v3, and that kubectl
/// explains the kind and creates an object of it.
#[needs(kubectl)]
#[tokio::test]
async fn kinds_that_preserve_unknown_root_fields_are_published() {
    let server = server().await;
    let group = format!("open-{}.example.com", server.namespace().await);
    let open = json!({"type": "object", "description": "published in version 3 only",
        "x-kubernetes-preserve-unknown-fields": true});
    let mut partly = open.clone();
    partly["properties"] = json!({"spec": {"type": "object"}});
    for (kind, schema) in [("Bare", &open), ("Partly", &partly)] {
        let plural = format!("{}s", kind.to_lowercase());
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        server.create(path, definition).await;
        let reversed: Vec<&str> = group.rsplit('.').collect();
        let name = format!("{}.v1.{kind}", reversed.join("."));
        let kinds = json!([{"group": group, "version": "v1", "kind": kind}]);
        berth_e2e::eventually("OpenAPI v2 to contain the kind", async || {
            let whole = server.raw("GET", "/openapi/v2", &[], "").await.json;
            let found = &whole["definitions"][&name];
            let expected = json!({"type": "object", "x-kubernetes-group-version-kind": kinds});
            if *found == expected {
                Ok(())
            } else {
                Err(found.to_string())
            }
        })
        .await;
        let path = format!("/openapi/v3/apis/{group}/v1");
        berth_e2e::eventually("OpenAPI v3 to contain the kind", async || {
            let document = server.raw("GET", &path, &[], "").await.json;
            let found = &document["components"]["schemas"][&name];
            let is_published = found["type"] == "object"
                && found["x-kubernetes-preserve-unknown-fields"] == true
                && found["x-kubernetes-group-version-kind"] == kinds
                && found["properties"]["apiVersion"]["type"] == "string"
                && found["properties"]["metadata"].is_object();
            if is_published {
                Ok(())
            } else {
                Err(found.to_string())
            }
        })
        .await;
        let explained = format!("{plural}.{group}");
        berth_e2e::eventually("kubectl explain to know the kind", async || {
            let output = server.kubectl(&["explain", &explained]).await;
            let text = String::from_utf8_lossy(&output.stdout);
            if text.contains(&format!("KIND:       {kind}")) {
                Ok(())
            } else {
                Err(format!("{output:?}"))
            }
        })
        .await;
        let file = tempfile::NamedTempFile::new().unwrap();
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"},
            "any": {"thing": [{"b": 1}]}});
        std::fs::write(file.path(), object.to_string()).unwrap();
        let created = server
            .kubectl(&["create", "-f", file.path().to_str().unwrap()])
            .await;
        assert!(created.status.success(), "{created:?}");
    }
}
