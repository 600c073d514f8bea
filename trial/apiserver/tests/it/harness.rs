//! A server for one test, with a client that is connected to the server.

use std::time::Duration;

use berth_apiserver::{Server, ServerConfig};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

/// Maximum time for which a test waits. After this time, the test fails.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Harness {
    pub(crate) server: Server,
    /// A client over TLS.
    pub(crate) client: Client,
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::with(ServerConfig::default()).await
    }

    pub(crate) async fn with(config: ServerConfig) -> Self {
        let server = Server::start(config).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig("test")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
        Self { server, client }
    }

    /// Returns an API for the untyped objects of a resource in the namespace `default`.
    pub(crate) fn api(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
    ) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    pub(crate) async fn install_widgets(&self) -> Api<DynamicObject> {
        self.server.install_crd(widgets()).await.unwrap();
        self.api("test.example.com", "v1", "Widget", "widgets")
    }

    /// Sends a request, and returns the status code and the JSON body of the response.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> (u16, Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(kube::client::Body::from(body))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

pub(crate) fn widgets() -> CustomResourceDefinition {
    serde_saphyr::from_str(WIDGETS).unwrap()
}

/// The CustomResourceDefinition of `Widget`, the custom kind of these tests.
const WIDGETS: &str = r#"
{
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.example.com"},
        "spec": {
            "group": "test.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Secret", "type": "string", "jsonPath": ".spec.hidden", "priority": 1}],
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["color"], "properties": {
                        "color": {"type": "string", "minLength": 2, "description": "Color of the widget."},
                        "size": {"type": "string", "enum": ["S", "L"], "default": "S"},
                        "hidden": {"type": "string"},
                        "replicas": {"type": "integer", "minimum": 0},
                        "parts": {"type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                    "status": {"type": "object", "properties": {
                        "replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}},
            }],
        },
    }
"#;

/// Returns a `Widget` object.
pub(crate) fn widget(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}
