//! Helpers that create a CustomResourceDefinition for one test, and send requests for objects of its kind.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, JSON_PATCH};
use crate::harness::server::{ApiResponse, TestServer};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns a definition with a unique group, and one version with this schema for `spec`.
pub(crate) fn definition(spec: Value) -> Value {
    let group = format!(
        "g{}.example.com",
        &uuid::Uuid::new_v4().simple().to_string()[..8]
    );
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}],
        },
    })
}

pub(crate) async fn define(server: &TestServer, definition: &Value) -> ApiResponse {
    server
        .raw("POST", DEFINITIONS, &[JSON], definition.to_string())
        .await
}

/// A custom kind that the server serves.
pub(crate) struct Kind<'a> {
    server: &'a TestServer,
    pub(crate) name: String,
    pub(crate) group: String,
}

impl<'a> Kind<'a> {
    /// Creates a definition, and waits until the server lists and creates objects of its kind.
    pub(crate) async fn install(server: &'a TestServer, definition: &Value) -> Self {
        let created = define(server, definition).await;
        assert_eq!(created.code, 201, "{}", created.text);
        let kind = Self {
            server,
            name: definition["metadata"]["name"].as_str().unwrap().to_owned(),
            group: definition["spec"]["group"].as_str().unwrap().to_owned(),
        };
        let kind = &kind;
        eventually("the kind to be served", async || {
            let listed = kind.server.raw("GET", &kind.path("v1"), &[], "").await;
            let probe = json!({"metadata": {"name": "Not A Name"}});
            let probed = kind.send("POST", &kind.path("v1"), &probe).await;
            if listed.code == 200 && probed.code != 404 {
                Ok(())
            } else {
                Err(format!("{} {}", listed.text, probed.text))
            }
        })
        .await;
        Self {
            server,
            name: kind.name.clone(),
            group: kind.group.clone(),
        }
    }

    pub(crate) fn path(&self, version: &str) -> String {
        format!("/apis/{}/{version}/namespaces/default/things", self.group)
    }

    async fn send(&self, method: &str, path: &str, object: &Value) -> ApiResponse {
        let mut object = object.clone();
        object["apiVersion"] = json!(format!("{}/v1", self.group));
        object["kind"] = json!("Thing");
        self.server
            .raw(method, path, &[JSON], object.to_string())
            .await
    }

    pub(crate) async fn create(&self, name: &str, spec: &Value) -> ApiResponse {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.send("POST", &self.path("v1"), &object).await
    }

    /// Replaces the whole spec of an object.
    pub(crate) async fn replace(&self, name: &str, spec: &Value) -> ApiResponse {
        let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
        let object = format!("{}/{name}", self.path("v1"));
        self.server
            .raw("PATCH", &object, &[JSON_PATCH], patch.to_string())
            .await
    }
}

/// Returns `field: message` for each cause in an error response. The result is sorted, because servers return causes in
/// any order.
pub(crate) fn causes(response: &ApiResponse) -> Vec<String> {
    let mut causes: Vec<String> = response.json["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| {
            let text = |name: &str| c[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("field"), text("message"))
        })
        .collect();
    causes.sort();
    causes
}
