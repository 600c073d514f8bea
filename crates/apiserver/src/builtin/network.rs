//! Defaults of services and of what else is about the network.

use serde_json::{Value, json};

use super::{items, set};

/// Fills in a service.
pub(super) fn service(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "type", json!("ClusterIP"));
    set(spec, "sessionAffinity", json!("None"));
    if spec["sessionAffinity"] == "ClientIP" {
        set(spec, "sessionAffinityConfig", json!({}));
        set(&mut spec["sessionAffinityConfig"], "clientIP", json!({}));
        set(
            &mut spec["sessionAffinityConfig"]["clientIP"],
            "timeoutSeconds",
            json!(10_800),
        );
    }
    if spec["type"] != "ExternalName" {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if has_node_ports(spec) {
        set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    for port in items(spec, "ports") {
        set(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        set(port, "targetPort", number);
    }
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Gives a service its addresses and ports. They are made up: nothing routes them.
pub(super) fn allocate(value: &mut Value) {
    let spec = &mut value["spec"];
    if spec["type"] != "ExternalName" {
        set(spec, "ipFamilyPolicy", json!("SingleStack"));
        set(spec, "ipFamilies", json!(["IPv4"]));
        let given = spec
            .get("clusterIP")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if given.is_empty() {
            spec["clusterIP"] = json!(fabricated_ip());
        }
        let address = spec["clusterIP"].clone();
        set(spec, "clusterIPs", json!([address]));
    }
    if spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local" {
        set(spec, "healthCheckNodePort", json!(fabricated_port()));
    }
}

/// An address of the usual service range.
fn fabricated_ip() -> String {
    let random = uuid::Uuid::new_v4();
    let [a, b, ..] = *random.as_bytes();
    format!("10.{}.{a}.{}", 96 + (b & 0x0f), b.max(1))
}

/// A port of the usual range of node ports.
fn fabricated_port() -> u16 {
    let random = uuid::Uuid::new_v4();
    let [a, b, ..] = *random.as_bytes();
    30_000 + u16::from_be_bytes([a, b]) % 2768
}

pub(super) fn network_policy(value: &mut Value) {
    let spec = &mut value["spec"];
    let egress = spec["egress"].as_array().is_some_and(|l| !l.is_empty());
    let types = if egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set(spec, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                set(port, "protocol", json!("TCP"));
            }
        }
    }
}

pub(super) fn ingress_class(value: &mut Value) {
    if value["spec"]["parameters"].is_object() {
        set(&mut value["spec"]["parameters"], "scope", json!("Cluster"));
    }
}

pub(super) fn endpoints(value: &mut Value) {
    for subset in items(value, "subsets") {
        for port in items(subset, "ports") {
            set(port, "protocol", json!("TCP"));
        }
    }
}

pub(super) fn endpoint_slice(value: &mut Value) {
    for endpoint in items(value, "endpoints") {
        set(endpoint, "conditions", json!({}));
    }
    for port in items(value, "ports") {
        set(port, "name", json!(""));
        set(port, "protocol", json!("TCP"));
    }
}
