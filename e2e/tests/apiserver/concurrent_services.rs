//! Test of the allocation of cluster IPs and node ports to concurrent requests.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::json;

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::harness::server::ApiResponse;

#[tokio::test]
async fn concurrent_services_get_distinct_addresses_and_ports() {
    let server = server().await;
    let path = format!("/api/v1/namespaces/{}/services", server.namespace().await);
    let created = join_all((0..40).map(async |i| {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
        let object = json!({"metadata": {"name": format!("s{i}")}, "spec": spec});
        server.raw("POST", &path, &[JSON], object.to_string()).await
    }))
    .await;
    let given = |pointer: &str| -> BTreeSet<String> {
        let value = |response: &ApiResponse| response.json.pointer(pointer).unwrap().to_string();
        created.iter().map(value).collect()
    };
    assert_eq!(given("/spec/clusterIP").len(), 40);
    let ports = given("/spec/ports/0/nodePort");
    assert_eq!(ports.len(), 40);
    let is_in_range = |port: &String| (30_000..32_768).contains(&port.parse::<i64>().unwrap());
    assert!(ports.iter().all(is_in_range), "{ports:?}");
}
