//! Tests of objects that the server itself maintains: the Service `kubernetes`, and the ConfigMap with the CA
//! certificate in each namespace.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::objects::Objects;
use crate::harness::server;

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

/// Checks that the Service `kubernetes` contains the port of the server.
#[tokio::test]
async fn the_kubernetes_service_points_to_the_server() {
    let server = server().await;
    let port = server.config().await.cluster_url.port_u16().unwrap();
    let found = Objects::at(&server, SERVICE).get("").await.json;
    let spec = &found["spec"];
    assert_eq!(spec["ports"][0]["port"], 443);
    assert_eq!(spec["ports"][0]["name"], "https");
    assert_eq!(spec["ports"][0]["targetPort"], port);
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    assert_eq!(found["metadata"]["labels"], labels);
}

/// Checks that the endpoints of the Service `kubernetes` contain the address of the server, and that the server restores
/// Service and endpoints after a deletion or a change. kube-apiserver publishes no endpoints for a loopback address.
#[needs(embedded)]
#[tokio::test]
async fn the_kubernetes_service_and_its_endpoints_are_restored() {
    let server = server().await;
    let url = server.config().await.cluster_url;
    let (host, port) = (url.host().unwrap(), url.port_u16().unwrap());
    let service = Objects::at(&server, SERVICE);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = Objects::at(&server, format!("{slices}/kubernetes"));
    let endpoints = Objects::at(&server, "/api/v1/namespaces/default/endpoints/kubernetes");
    let label = &slice.get("").await.json["metadata"]["labels"]["kubernetes.io/service-name"];
    assert_eq!(label, "kubernetes");
    assert_eq!(service.get("").await.json["spec"]["clusterIP"], "10.96.0.1");
    let checked = async || {
        let slice = slice.get("").await.json;
        let endpoints = endpoints.get("").await.json;
        let (of_slice, of_endpoints) = (&slice["endpoints"][0], &endpoints["subsets"][0]);
        let is_correct = of_slice["addresses"] == json!([host])
            && slice["ports"][0]["port"] == port
            && of_endpoints["addresses"] == json!([{"ip": host}])
            && of_endpoints["ports"] == json!([{"name": "https", "port": port, "protocol": "TCP"}])
            && service.get("").await.json["spec"]["ports"][0]["targetPort"] == port;
        if is_correct {
            Ok(())
        } else {
            Err(format!("{slice}\n{endpoints}"))
        }
    };
    checked().await.unwrap();
    // The server restores these objects after a deletion or a change.
    for part in [&service, &slice, &endpoints] {
        let deleted = part.delete("", &Value::Null).await;
        assert_eq!(deleted.code, 200, "{}", deleted.text);
    }
    eventually("the service to be restored", checked).await;
    let edit = json!({"ports": [{"name": "https", "port": 1, "protocol": "TCP"}]});
    let edited = slice.merge("", &edit).await;
    assert_eq!(edited.code, 200, "{}", edited.text);
    let edit = json!({"subsets": []});
    assert_eq!(endpoints.merge("", &edit).await.code, 200);
    eventually("the addresses to be restored", checked).await;
}

/// Checks that each namespace has the ConfigMap `kube-root-ca.crt` with the CA certificate. The embedded server
/// restores this ConfigMap after a deletion or a change. kube-controller-manager, which publishes the certificate for
/// kube-apiserver, does not run.
#[needs(embedded)]
#[tokio::test]
async fn every_namespace_contains_the_root_certificate() {
    let server = server().await;
    let config = server.config().await;
    let namespace = server.namespace().await;
    let roots = config.root_cert.unwrap();
    for namespace in ["default", "kube-system", &namespace] {
        let map = Objects::maps(&server, namespace);
        let published = async || {
            let found = map.get("/kube-root-ca.crt").await;
            let data = found.json["data"].as_object().cloned().unwrap_or_default();
            let text = data.get("ca.crt").and_then(Value::as_str);
            let is_published = text.is_some_and(|text| {
                let decoded = pem_bodies(text);
                decoded == roots
            });
            if is_published && data.len() == 1 {
                Ok(())
            } else {
                Err(found.text)
            }
        };
        eventually("the certificate", published).await;
        let deleted = map.delete("/kube-root-ca.crt", &Value::Null).await;
        assert_eq!(deleted.code, 200, "{}", deleted.text);
        eventually("the certificate to be restored", published).await;
        let edited = map
            .merge(
                "/kube-root-ca.crt",
                &json!({"data": {"ca.crt": "x", "y": "z"}}),
            )
            .await;
        assert_eq!(edited.code, 200, "{}", edited.text);
        eventually("the certificate to be corrected", published).await;
    }
    // The ConfigMap does not block the deletion of its namespace.
    let namespace_object = Objects::at(&server, format!("/api/v1/namespaces/{namespace}"));
    assert_eq!(namespace_object.delete("", &Value::Null).await.code, 200);
    eventually(
        "the namespace to be deleted",
        async || match namespace_object.get("").await.code {
            404 => Ok(()),
            code => Err(code.to_string()),
        },
    )
    .await;
}

/// Returns the decoded certificate of a PEM file, or an empty list if the text is not valid PEM.
fn pem_bodies(text: &str) -> Vec<Vec<u8>> {
    use base64::Engine as _;
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode(body);
    decoded.into_iter().collect()
}
