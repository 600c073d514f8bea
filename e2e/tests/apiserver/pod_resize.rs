//! Requests to the `resize` subresource of pods. A resize must respect the capacity of the node, LimitRanges and
//! ResourceQuotas.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::{MERGE, STRATEGIC};
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

/// Creates a pod with one container that requests a tenth of a CPU.
async fn create_pod(server: &TestServer, pods: &str, name: &str, node: Option<&str>) {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let spec = json!({"nodeName": node, "containers": [container]});
    server
        .create(pods, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
}

/// Sends a strategic merge patch of the resource requests of container `c` to the `resize` subresource.
async fn resize(
    server: &TestServer,
    pods: &str,
    name: &str,
    query: &str,
    requests: Value,
) -> ApiResponse {
    let container = json!({"name": "c", "resources": {"requests": requests}});
    let change = json!({"spec": {"containers": [container]}}).to_string();
    let path = format!("{pods}/{name}/resize{query}");
    server.raw("PATCH", &path, &[STRATEGIC], change).await
}

/// Checks that a resize beyond the allocatable resources of the node is refused, as is a resize on a Windows node or on
/// a missing node.
#[tokio::test]
async fn resizes_stay_within_node_capacity() {
    let server = server().await;
    let namespace = server.namespace().await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let (node, other) = (format!("node-{namespace}"), format!("other-{namespace}"));
    for (name, system) in [(&node, "linux"), (&other, "windows")] {
        let meta = json!({"name": name, "labels": {"kubernetes.io/os": system}});
        let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}});
        let created = json!({"metadata": meta, "status": status});
        server.create("/api/v1/nodes", created).await;
    }
    create_pod(&server, &pods, "here", Some(&node)).await;
    create_pod(&server, &pods, "there", Some(&other)).await;
    create_pod(&server, &pods, "lost", Some("nowhere")).await;
    create_pod(&server, &pods, "free", None).await;
    // kube-apiserver may notice the new node with a delay.
    let resized = eventually("the node to be visible", async || {
        let response = resize(&server, &pods, "here", "", json!({"cpu": "200m"})).await;
        if response.code == 200 {
            Ok(response.json)
        } else {
            Err(response.text)
        }
    })
    .await;
    assert_eq!(resized["metadata"]["generation"], 2);
    let container = &resized["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"requests": {"cpu": "200m"}}));
    let writers = resized["metadata"]["managedFields"].as_array().unwrap();
    let writer = writers
        .iter()
        .find(|writer| writer["subresource"] == "resize")
        .unwrap();
    let owned = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:resources": {"f:requests": {"f:cpu": {}}}}}}});
    assert_eq!(writer["fieldsV1"], owned);
    let again = resize(&server, &pods, "here", "", json!({"cpu": "200m"})).await;
    assert_eq!(again.json["metadata"]["generation"], 2);
    let free = resize(&server, &pods, "free", "", json!({"cpu": "100"})).await;
    assert_eq!(free.code, 200, "{}", free.text);

    let capacity = json!([{"reason": "NodeCapacity"}]);
    for (name, requested, why, causes) in [
        (
            "here",
            json!({"cpu": "5"}),
            "node didn't have enough allocatable resources: cpu, requested: 5000, allocatable: 4000".to_owned(),
            capacity.clone(),
        ),
        (
            "here",
            json!({"cpu": "4500m", "memory": "9Gi"}),
            "node didn't have enough allocatable resources: cpu, requested: 4500, allocatable: 4000; memory, requested: \
             9663676416, allocatable: 8589934592"
                .to_owned(),
            capacity,
        ),
        (
            "there",
            json!({"cpu": "1"}),
            format!("pod resize is only supported on linux nodes, node \"{other}\" is \"windows\""),
            json!([{"reason": "UnsupportedPlatform"}]),
        ),
        (
            "lost",
            json!({"cpu": "1"}),
            "node \"nowhere\" not found".to_owned(),
            Value::Null,
        ),
    ] {
        eventually("the refusal", async || {
            let refused = resize(&server, &pods, name, "", requested.clone()).await;
            let message = json!(format!("pods \"{name}\" is forbidden: {why}"));
            if (refused.code, &refused.json["message"]) == (403, &message)
                && refused.json["details"]["causes"] == causes
            {
                Ok(())
            } else {
                Err(refused.text)
            }
        })
        .await;
    }
}

#[tokio::test]
async fn resizes_respect_limit_ranges_and_quotas() {
    let server = server().await;
    let namespace = server.namespace().await;
    let root = format!("/api/v1/namespaces/{namespace}");
    let pods = format!("{root}/pods");
    create_pod(&server, &pods, "p", None).await;
    let limits = json!([{"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "50m"}}]);
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": limits}});
    server.create(&format!("{root}/limitranges"), range).await;
    let hard = json!({"requests.cpu": "2", "pods": "5"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    server
        .create(&format!("{root}/resourcequotas"), quota)
        .await;
    if server.is_kube_apiserver() {
        // No kube-controller-manager runs beside kube-apiserver, so the test writes the status of the quota.
        let used = json!({"requests.cpu": "100m", "pods": "1"});
        let status = json!({"status": {"hard": hard, "used": used}}).to_string();
        let path = format!("{root}/resourcequotas/q/status");
        assert_eq!(server.raw("PATCH", &path, &[MERGE], status).await.code, 200);
    }
    // kube-apiserver may notice the LimitRange and the quota with a delay.
    for (requested, why) in [
        (
            "10m",
            "pods \"p\" is forbidden: minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            "3",
            "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=2900m, used: requests.cpu=100m, \
             limited: requests.cpu=2",
        ),
    ] {
        eventually("requests out of range to be refused", async || {
            let refused = resize(
                &server,
                &pods,
                "p",
                "?dryRun=All",
                json!({"cpu": requested}),
            )
            .await;
            if (refused.code, &refused.json["message"]) == (403, &json!(why)) {
                Ok(())
            } else {
                Err(refused.text)
            }
        })
        .await;
    }
    let more = resize(&server, &pods, "p", "", json!({"cpu": "1500m"})).await;
    assert_eq!(more.code, 200, "{}", more.text);
    // The server sets the default limit of the LimitRange, and adds no annotation about the default.
    assert_eq!(
        more.json["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "4"}, "requests": {"cpu": "1500m"}})
    );
    assert!(more.json["metadata"]["annotations"].is_null());
}
