//! Services: the allocation and validation of cluster IPs and node ports, and changes of existing Services.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::status_of;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn create(server: &TestServer, namespace: &str, name: &str, spec: &Value) -> ApiResponse {
    send(
        server,
        &format!("/api/v1/namespaces/{namespace}/services"),
        name,
        spec,
    )
    .await
}

/// Posts a Service to a path, which may have a query.
async fn send(server: &TestServer, path: &str, name: &str, spec: &Value) -> ApiResponse {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    server.raw("POST", path, &[JSON], object.to_string()).await
}

/// Sends a merge patch of the spec of a Service as a dry run.
async fn patch(server: &TestServer, namespace: &str, name: &str, spec: &Value) -> ApiResponse {
    let path = format!("/api/v1/namespaces/{namespace}/services/{name}?dryRun=All");
    let change = json!({"spec": spec}).to_string();
    server.raw("PATCH", &path, &[MERGE], change).await
}

fn node_port_spec(number: u16) -> Value {
    json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]})
}

/// Checks that a Service is refused if its cluster IP or node port is invalid, out of range, or allocated already. An
/// address is free again after its Service is deleted.
#[tokio::test]
async fn addresses_and_ports_are_in_range_and_unique() {
    let server = server().await;
    let namespace = server.namespace().await;
    let ports = json!([{"port": 80}]);
    let at = |address: &str| json!({"ports": ports, "clusterIP": address});
    let outside = |name: &str| json!({"type": "ExternalName", "externalName": "a.example", "clusterIP": name});
    // The spec of a Service, `sends_real_request`, and the cause in the response.
    let cases = [
        (
            json!({"ports": ports, "clusterIPs": ["10.96.7.1"]}),
            false,
            "spec.clusterIPs: Invalid value: [\"10.96.7.1\"]: must be empty when `clusterIP` is not specified",
        ),
        (
            json!({"ports": ports, "clusterIP": "10.96.7.2", "clusterIPs": ["10.96.7.1"]}),
            false,
            "spec.clusterIPs: Invalid value: [\"10.96.7.1\"]: first value must match `clusterIP`",
        ),
        (
            json!({"ports": ports, "clusterIP": "10.96.7.2", "clusterIPs": ["10.96.7.2", "10.96.7.3"]}),
            false,
            "spec.clusterIPs: Invalid value: [\"10.96.7.2\",\"10.96.7.3\"]: may specify no more than one IP for each \
             IP family",
        ),
        (
            at("1.2.3.4"),
            false,
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is \
             not in the valid range. The range of valid IPs is 10.96.0.0/12",
        ),
        (
            at("1.2.3.5"),
            true,
            "spec.clusterIPs: Invalid value: [\"1.2.3.5\"]: failed to allocate IP 1.2.3.5: the provided network does not \
             match the current range",
        ),
        (
            at("10.96.0.0"),
            false,
            "spec.clusterIPs: Invalid value: [\"10.96.0.0\"]: failed to allocate IP 10.96.0.0: the provided IP \
             (10.96.0.0) is not in the valid range. The range of valid IPs is 10.96.0.0/12",
        ),
        (
            at("fd00::1"),
            false,
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            outside("10.96.7.1"),
            false,
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            outside("None"),
            false,
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"type": "ExternalName", "externalName": "a.example", "ipFamilyPolicy": "SingleStack"}),
            false,
            "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
        ),
        (
            node_port_spec(100),
            true,
            "spec.ports[0].nodePort: Invalid value: 100: provided port is not in the valid range. The range of valid \
             ports is 30000-32767",
        ),
    ];
    for (spec, sends_real_request, why) in cases {
        // A dry run skips the checks of node ports, and reports an address out of range with another message.
        let query = if sends_real_request {
            ""
        } else {
            "?dryRun=All"
        };
        let path = format!("/api/v1/namespaces/{namespace}/services{query}");
        let response = send(&server, &path, "wrong", &spec).await;
        let message = format!("Service \"wrong\" is invalid: {why}");
        assert_eq!(status_of(&response), (422, &*message), "{spec}");
    }

    let one = create(&server, &namespace, "one", &json!({"ports": ports})).await;
    let address = one.json["spec"]["clusterIP"].as_str().unwrap();
    let same = create(&server, &namespace, "two", &at(address)).await;
    let why = format!(
        "Service \"two\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: \
         provided IP is already allocated"
    );
    assert_eq!((same.code, &same.json["message"]), (422, &json!(why)));
    let path = format!("/api/v1/namespaces/{namespace}/services/one");
    assert_eq!(server.raw("DELETE", &path, &[], "").await.code, 200);
    let same = create(&server, &namespace, "two", &at(address)).await;
    assert_eq!(same.code, 201, "{}", same.text);

    let first = json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80}, {"name": "b", "protocol": "UDP", "port": 80}, {"name": "c", "port": 81}]});
    let first = create(&server, &namespace, "open", &first).await.json;
    let numbers = [0, 1, 2].map(|i| first["spec"]["ports"][i]["nodePort"].as_u64().unwrap());
    assert!(
        numbers[0] == numbers[1] && numbers[0] != numbers[2],
        "{numbers:?}"
    );
    let taken = u16::try_from(numbers[2]).unwrap();
    let refused = create(&server, &namespace, "shut", &node_port_spec(taken)).await;
    let why = format!(
        "Service \"shut\" is invalid: spec.ports[0].nodePort: Invalid value: {taken}: provided port is already allocated"
    );
    assert_eq!((refused.code, &refused.json["message"]), (422, &json!(why)));
    let health = json!({"type": "LoadBalancer", "ports": ports, "externalTrafficPolicy": "Local",
        "healthCheckNodePort": taken});
    let refused = create(&server, &namespace, "shut", &health).await;
    let why = format!(
        "Internal error occurred: failed to allocate requested HealthCheck NodePort {taken}: provided port is already \
         allocated"
    );
    assert_eq!((refused.code, &refused.json["message"]), (500, &json!(why)));
}

#[tokio::test]
async fn concurrent_services_get_distinct_addresses_and_ports() {
    let server = server().await;
    let namespace = server.namespace().await;
    let names: Vec<String> = (0..40).map(|i| format!("s{i}")).collect();
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let created = join_all(
        names
            .iter()
            .map(|name| create(&server, &namespace, name, &spec)),
    )
    .await;
    let given = |pointer: &str| -> BTreeSet<String> {
        let value = |response: &ApiResponse| response.json.pointer(pointer).unwrap().to_string();
        created.iter().map(value).collect()
    };
    assert_eq!(given("/spec/clusterIP").len(), 40);
    assert_eq!(given("/spec/ports/0/nodePort").len(), 40);
}

/// Checks that an update of a Service keeps its cluster IPs and node ports if its new type has them, and releases them
/// otherwise. A change of an allocated cluster IP is refused.
#[tokio::test]
async fn updates_keep_allocations_that_still_apply() {
    let server = server().await;
    let namespace = server.namespace().await;
    let ports = json!([{"port": 80}]);
    for (name, spec) in [
        ("inside", json!({"ports": ports})),
        ("open", json!({"type": "NodePort", "ports": ports})),
        (
            "balanced",
            json!({"type": "LoadBalancer", "ports": ports, "externalTrafficPolicy": "Local"}),
        ),
        (
            "outside",
            json!({"type": "ExternalName", "externalName": "a.example"}),
        ),
        ("headless", json!({"ports": ports, "clusterIP": "None"})),
        (
            "selecting",
            json!({"ports": ports, "clusterIP": "None", "selector": {"a": "b"}}),
        ),
    ] {
        let created = create(&server, &namespace, name, &spec).await;
        assert_eq!(created.code, 201, "{}", created.text);
    }
    let get = async |name: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
        server.raw("GET", &path, &[], "").await.json["spec"].clone()
    };
    let families = async |name: &str| {
        let spec = get(name).await;
        (spec["ipFamilyPolicy"].clone(), spec["ipFamilies"].clone())
    };
    let both = (json!("RequireDualStack"), json!(["IPv4", "IPv6"]));
    assert_eq!(families("headless").await, both);
    assert_eq!(
        families("selecting").await,
        (json!("SingleStack"), json!(["IPv4"]))
    );

    let before = get("inside").await;
    let port = get("open").await["ports"][0]["nodePort"].clone();
    // The name of a Service, the change, and the expected values of some fields. A removed field is null.
    let cases = [
        (
            "inside",
            json!({"clusterIP": null, "clusterIPs": null}),
            before.clone(),
        ),
        ("inside", json!({"clusterIP": ""}), before.clone()),
        (
            "inside",
            json!({"type": "NodePort"}),
            json!({"clusterIP": before["clusterIP"], "externalTrafficPolicy": "Cluster"}),
        ),
        (
            "inside",
            json!({"type": "ExternalName", "externalName": "a.example"}),
            json!({"clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null,
                "internalTrafficPolicy": null}),
        ),
        (
            "open",
            json!({"type": "ClusterIP"}),
            json!({"externalTrafficPolicy": null, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
        ),
        (
            "open",
            json!({"ports": [{"port": 81}]}),
            json!({"ports": [{"port": 81, "protocol": "TCP", "targetPort": 81, "nodePort": port}]}),
        ),
        (
            "balanced",
            json!({"externalTrafficPolicy": "Cluster"}),
            json!({"healthCheckNodePort": null}),
        ),
        (
            "balanced",
            json!({"type": "NodePort"}),
            json!({"healthCheckNodePort": null, "allocateLoadBalancerNodePorts": null, "externalTrafficPolicy": "Local"}),
        ),
        (
            "balanced",
            json!({"type": "ClusterIP"}),
            json!({"healthCheckNodePort": null, "allocateLoadBalancerNodePorts": null, "externalTrafficPolicy": null}),
        ),
        (
            "outside",
            json!({"type": "ClusterIP", "externalName": null, "ports": ports}),
            json!({"ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"}),
        ),
    ];
    for (name, change, expected) in cases {
        let response = patch(&server, &namespace, name, &change).await;
        assert_eq!(response.code, 200, "{name} {change}: {}", response.text);
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(
                response.json["spec"][field], *value,
                "{name} {change}: {field}"
            );
        }
    }
    for (name, change, why) in [
        (
            "inside",
            json!({"clusterIP": "10.96.7.9", "clusterIPs": null}),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.7.9\"]: may not change once set",
        ),
        (
            "inside",
            json!({"clusterIP": "10.96.7.9"}),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.7.9\"]: may not change once set",
        ),
        (
            "balanced",
            // The change is refused before the port is allocated, so that it does not matter that another Service has
            // the port.
            json!({"healthCheckNodePort": port}),
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ),
        (
            "selecting",
            json!({"type": "NodePort"}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
    ] {
        let response = patch(&server, &namespace, name, &change).await;
        let message = format!("Service \"{name}\" is invalid: {why}");
        assert_eq!(status_of(&response), (422, &*message), "{change}");
    }
    // A replacement without addresses, as `kubectl replace` and Helm send it, keeps the addresses.
    let path = format!("/api/v1/namespaces/{namespace}/services/inside");
    let object = json!({"metadata": {"name": "inside"}, "spec": {"ports": [{"port": 82}]}});
    let replaced = server.raw("PUT", &path, &[JSON], object.to_string()).await;
    assert_eq!(
        replaced.json["spec"]["clusterIPs"], before["clusterIPs"],
        "{}",
        replaced.text
    );
}

/// Checks that a Service gets a free node port, and that another Service with the same node port gets 422.
#[tokio::test]
async fn node_ports_belong_to_one_service() {
    let server = server().await;
    let namespace = server.namespace().await;
    let spec = |port: Value| json!({"type": "NodePort", "ports": [port]});
    let first = create(&server, &namespace, "first", &spec(json!({"port": 80}))).await;
    let port = first.json["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..32_768).contains(&port), "{port}");
    let same = spec(json!({"port": 81, "nodePort": port}));
    let refused = create(&server, &namespace, "second", &same).await;
    let why = format!(
        "Service \"second\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated"
    );
    assert_eq!((refused.code, &refused.json["message"]), (422, &json!(why)));
    // Two Services cannot share a node port, even with different protocols.
    let other = spec(json!({"port": 81, "protocol": "UDP", "nodePort": port}));
    let other = create(&server, &namespace, "third", &other).await;
    assert_eq!(other.code, 422, "{}", other.text);
    // A replacement that omits the node port keeps the allocated node port.
    let mut again = first.json;
    again["spec"]["ports"][0]
        .as_object_mut()
        .unwrap()
        .remove("nodePort");
    again["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("/api/v1/namespaces/{namespace}/services/first");
    let kept = server.raw("PUT", &path, &[JSON], again.to_string()).await;
    assert_eq!(
        kept.json["spec"]["ports"][0]["nodePort"], port,
        "{}",
        kept.text
    );
}
