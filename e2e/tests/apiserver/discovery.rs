//! Tests of the content of discovery and OpenAPI documents. The module `content_negotiation` tests the HTTP features of
//! these documents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::server;

/// Recorded discovery of kube-apiserver: the resources of each group and version that the embedded server also serves.
const RECORDED: &str = include_str!("data/resources.json");

fn path(version: &str) -> String {
    let root = if version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{version}")
}

/// Sorts the verbs, short names and categories of a resource, because servers return them in any order. Removes null
/// fields and the hash of the storage version.
fn sorted(mut resource: Value) -> Value {
    for list in ["verbs", "shortNames", "categories"] {
        if let Some(names) = resource[list].as_array_mut() {
            names.sort_by_key(Value::to_string);
        }
    }
    if let Some(members) = resource.as_object_mut() {
        members.retain(|name, value| name != "storageVersionHash" && !value.is_null());
    }
    resource
}

/// Checks that discovery lists each recorded resource with its recorded names, verbs and categories.
#[tokio::test]
async fn discovery_lists_resources_and_verbs() {
    let server = server().await;
    let recorded: BTreeMap<String, Vec<Value>> = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 15, "{}", recorded.len());
    let mut failures = Vec::new();
    for (version, resources) in recorded {
        let list = server.raw("GET", &path(&version), &[], "").await.json;
        assert_eq!(
            (&list["kind"], &list["groupVersion"]),
            (&json!("APIResourceList"), &json!(version))
        );
        let found: BTreeMap<String, Value> = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| (r["name"].as_str().unwrap().to_owned(), sorted(r.clone())))
            .collect();
        for resource in resources {
            let name = resource["name"].as_str().unwrap();
            let listed = found.get(name).cloned().unwrap_or_default();
            let expected = sorted(resource.clone());
            if listed != expected {
                failures.push(format!(
                    "{version} {name}:\n  expected {expected}\n  found    {listed}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checks that aggregated discovery and the plain resource lists contain the same resources with the same verbs.
#[tokio::test]
async fn aggregated_and_plain_discovery_agree() {
    let server = server().await;
    let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut groups = 0;
    for root in ["/api", "/apis"] {
        let response = server.raw("GET", root, &[("accept", form)], "").await;
        assert_eq!(response.headers["content-type"], form);
        assert_eq!(
            (&response.json["kind"], &response.json["apiVersion"]),
            (
                &json!("APIGroupDiscoveryList"),
                &json!("apidiscovery.k8s.io/v2")
            )
        );
        for group in response.json["items"].as_array().unwrap() {
            groups += 1;
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let version_name = version["version"].as_str().unwrap();
                let full = if name.is_empty() {
                    version_name.to_owned()
                } else {
                    format!("{name}/{version_name}")
                };
                let list = server.raw("GET", &path(&full), &[], "").await.json;
                let mut flat: Vec<(String, Value, Value)> = Vec::new();
                for resource in version["resources"].as_array().unwrap() {
                    let plural = resource["resource"].as_str().unwrap();
                    let text = plural.to_owned();
                    let verbs_and_kind = |r: &Value| {
                        (
                            sorted(r.clone())["verbs"].clone(),
                            r["responseKind"]["kind"].clone(),
                        )
                    };
                    let (verbs, kind) = verbs_and_kind(resource);
                    flat.push((text, verbs, kind));
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let (verbs, kind) = verbs_and_kind(part);
                        let name = part["subresource"].as_str().unwrap();
                        flat.push((format!("{plural}/{name}"), verbs, kind));
                    }
                }
                let mut listed: Vec<(String, Value, Value)> = list["resources"]
                    .as_array()
                    .unwrap_or_else(|| panic!("{full}: {list}"))
                    .iter()
                    .map(|r| {
                        let name = r["name"].as_str().unwrap().to_owned();
                        (name, sorted(r.clone())["verbs"].clone(), r["kind"].clone())
                    })
                    .collect();
                let by_name =
                    |a: &(String, Value, Value), b: &(String, Value, Value)| a.0.cmp(&b.0);
                flat.sort_by(by_name);
                listed.sort_by(by_name);
                let names_and_verbs = |all: &[(String, Value, Value)]| {
                    all.iter()
                        .map(|r| (r.0.clone(), r.1.clone()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(names_and_verbs(&flat), names_and_verbs(&listed), "{full}");
            }
        }
    }
    assert!(groups > 10, "{groups}");
}

/// Checks the responses of `/`, `/api`, `/apis`, `/apis/apps`, `/version` and `/metrics`.
#[tokio::test]
async fn roots_groups_and_version_are_served() {
    let server = server().await;
    let get = async |path: &str| server.raw("GET", path, &[], "").await;
    let api = get("/api").await.json;
    assert_eq!(
        (&api["kind"], &api["versions"]),
        (&json!("APIVersions"), &json!(["v1"]))
    );
    let apis = get("/apis").await.json;
    assert_eq!(apis["kind"], "APIGroupList");
    let group = get("/apis/apps").await.json;
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    let expected = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version],
        "preferredVersion": version});
    assert_eq!(group, expected);
    let listed = apis["groups"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["name"] == "apps");
    assert_eq!(listed.unwrap()["preferredVersion"], version);
    let version = get("/version").await.json;
    let part = |name: &str| version[name].as_str().unwrap_or_default();
    assert_eq!(
        ["major", "minor", "emulationMinor"].map(part),
        ["1", "36", "36"]
    );
    let paths = get("/").await.json;
    for path in [
        "/api",
        "/apis",
        "/healthz",
        "/openapi/v2",
        "/openapi/v3",
        "/version",
    ] {
        assert!(
            paths["paths"].as_array().unwrap().contains(&json!(path)),
            "{path}"
        );
    }
    let metrics = get("/metrics").await;
    assert!(
        metrics.text.contains("\napiserver_request_total{"),
        "{}",
        metrics.text.len()
    );
}

/// Checks that the OpenAPI v2 and v3 documents contain the schema and the kind of Deployments.
#[tokio::test]
async fn schemas_are_published_as_openapi_v2_and_v3() {
    let server = server().await;
    let index = server.raw("GET", "/openapi/v3", &[], "").await.json;
    for version in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = index["paths"][version]["serverRelativeURL"]
            .as_str()
            .unwrap();
        let begins = format!("/openapi/v3/{version}?hash=");
        assert!(url.starts_with(&begins), "{url}");
        let document = server.raw("GET", url, &[], "").await;
        assert!(
            document.json["openapi"].as_str().unwrap().starts_with("3."),
            "{version}"
        );
    }
    let apps = server
        .raw("GET", "/openapi/v3/apis/apps/v1", &[], "")
        .await
        .json;
    let deployment = &apps["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    let kind = json!([{"group": "apps", "kind": "Deployment", "version": "v1"}]);
    assert_eq!(deployment["x-kubernetes-group-version-kind"], kind);
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    for verb in ["get", "put", "patch", "delete"] {
        assert!(apps["paths"][path][verb].is_object(), "{verb}");
    }
    let old = server.raw("GET", "/openapi/v2", &[], "").await;
    assert_eq!(old.json["swagger"], "2.0");
    let definition = &old.json["definitions"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(definition["x-kubernetes-group-version-kind"], kind);
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let binary = server
        .raw("GET", "/openapi/v2", &[("accept", protobuf)], "")
        .await;
    let found = binary.headers["content-type"].to_str().unwrap();
    assert!(binary.code == 200 && found.contains("protobuf"), "{found}");
}
