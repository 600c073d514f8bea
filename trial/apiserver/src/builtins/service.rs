//! Defaults of Services, and the fields that an update keeps or removes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{items, set};

/// Sets the defaults of a Service.
pub(super) fn default(value: &mut Value) {
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
    if spec["sessionAffinity"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("sessionAffinityConfig");
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
    let is_balancer = spec["type"] == "LoadBalancer";
    for port in items(spec, "ports") {
        set(port, "protocol", json!("TCP"));
        // The target port is set even if the client omits the field.
        if port.get("targetPort").is_none_or(is_empty) && port.is_object() {
            port["targetPort"] = port["port"].clone();
        }
    }
    let addresses = value.pointer_mut("/status/loadBalancer");
    if is_balancer && let Some(addresses) = addresses {
        for address in items(addresses, "ingress").filter(|address| address["ip"].is_string()) {
            set(address, "ipMode", json!("VIP"));
        }
    }
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Reports whether the load balancer of a Service checks the health of nodes on a separate port.
fn has_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn has_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

/// Reports whether a value is absent, empty or zero.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

/// Keeps allocated fields that a client omits, and removes fields that the type of the Service does not have.
pub(super) fn adapt(value: &mut Value, old: Option<&Value>) {
    let spec = &mut value["spec"];
    match old.map(|old| &old["spec"]) {
        Some(before) => {
            keep_allocated(spec, before);
            update_cluster_ips(spec, before);
            drop_foreign_fields(spec, before);
        }
        None if !is_empty(&spec["clusterIP"]) && is_empty(&spec["clusterIPs"]) => {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        None => {}
    }
    if let Some(spec) = spec.as_object_mut() {
        for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            if spec.get(field).is_some_and(is_empty) {
                spec.remove(field);
            }
        }
    }
    if has_address(spec) {
        families(spec);
    }
}

/// Removes the addresses of a Service that is no load balancer.
pub(super) fn clear_addresses(service: &mut Value) {
    if service["spec"]["type"] != "LoadBalancer"
        && let Some(balancer) = service.pointer_mut("/status/loadBalancer")
    {
        *balancer = json!({});
    }
}

/// Keeps allocated fields that a client omits.
fn keep_allocated(spec: &mut Value, before: &Value) {
    if has_address(before) && has_address(spec) {
        if is_empty(&spec["clusterIP"]) {
            spec["clusterIP"] = before["clusterIP"].clone();
        }
        if is_empty(&spec["clusterIPs"]) && spec["clusterIP"] == before["clusterIP"] {
            spec["clusterIPs"] = before["clusterIPs"].clone();
        }
    }
    if has_node_ports(before) && has_node_ports(spec) {
        let numbers = |spec: &Value| -> BTreeSet<i64> {
            let ports = spec["ports"].as_array().into_iter().flatten();
            ports.filter_map(|port| port["nodePort"].as_i64()).collect()
        };
        let mut used: BTreeSet<i64> = &numbers(before) & &numbers(spec);
        let known = before["ports"].as_array();
        for port in items(spec, "ports") {
            let same = |other: &&Value| {
                is_empty(&port["name"]) && is_empty(&other["name"]) || port["name"] == other["name"]
            };
            let had = known.into_iter().flatten().rfind(same);
            let had = had.and_then(|had| had["nodePort"].as_i64());
            if is_empty(&port["nodePort"])
                && let Some(number) = had.filter(|number| *number != 0 && used.insert(*number))
            {
                port["nodePort"] = json!(number);
            }
        }
    }
    if has_health_check(before) && has_health_check(spec) && is_empty(&spec["healthCheckNodePort"])
    {
        spec["healthCheckNodePort"] = before["healthCheckNodePort"].clone();
    }
}

/// Makes `clusterIPs` consistent with `clusterIP` if a client omits `clusterIPs` or changes only `clusterIP`.
fn update_cluster_ips(spec: &mut Value, before: &Value) {
    if is_empty(&spec["clusterIPs"]) && spec["clusterIP"] == before["clusterIP"] {
        spec["clusterIPs"] = before["clusterIPs"].clone();
    }
    if spec["clusterIP"] != before["clusterIP"] && spec["clusterIPs"] == before["clusterIPs"] {
        spec["clusterIPs"] = if is_empty(&spec["clusterIP"]) {
            Value::Null
        } else {
            json!([spec["clusterIP"]])
        };
    }
    // A Service that had no cluster IPs before the update also gets `clusterIPs` from `clusterIP`.
    if is_empty(&spec["clusterIPs"]) && !is_empty(&spec["clusterIP"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
}

/// Removes the fields that the new type of the Service does not have, unless the update changes these fields.
fn drop_foreign_fields(spec: &mut Value, before: &Value) {
    let is_balancer = |spec: &Value| spec["type"] == "LoadBalancer";
    let is_reachable = |spec: &Value| has_node_ports(spec) || !is_empty(&spec["externalIPs"]);
    let lost = |spec: &Value, had: fn(&Value) -> bool| had(before) && !had(spec);
    let rules: [(&[&str], bool); 5] = [
        (
            &[
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
            ],
            lost(spec, has_address),
        ),
        (&["healthCheckNodePort"], lost(spec, has_health_check)),
        (
            &["allocateLoadBalancerNodePorts", "loadBalancerClass"],
            lost(spec, is_balancer),
        ),
        (&["externalTrafficPolicy"], lost(spec, is_reachable)),
        (
            &["sessionAffinityConfig"],
            before["sessionAffinity"] == "ClientIP" && spec["sessionAffinity"] == "None",
        ),
    ];
    let ports = |spec: &Value| -> Vec<Value> {
        let ports = spec["ports"].as_array().into_iter().flatten();
        ports.map(|port| port["nodePort"].clone()).collect()
    };
    let close = lost(spec, has_node_ports) && ports(spec) == ports(before);
    if close {
        for port in items(spec, "ports") {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let same = |spec: &Map<String, Value>, field: &str| spec.get(field) == before.get(field);
    for (fields, lost) in rules {
        for field in fields {
            if lost && same(spec, field) {
                spec.remove(*field);
            }
        }
    }
}

/// Sets the default IP families: IPv4, or both families for a headless Service without a selector.
fn families(spec: &mut Value) {
    let selects = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    let open = spec["clusterIP"] == "None" && !selects;
    set(
        spec,
        "ipFamilyPolicy",
        json!(if open {
            "RequireDualStack"
        } else {
            "SingleStack"
        }),
    );
    set(spec, "ipFamilies", json!(["IPv4"]));
    if open && spec["ipFamilyPolicy"] != "SingleStack" {
        let both = match spec["ipFamilies"].as_array().map(Vec::as_slice) {
            Some([one]) if one == "IPv6" => json!(["IPv6", "IPv4"]),
            Some([_]) => json!(["IPv4", "IPv6"]),
            _ => return,
        };
        spec["ipFamilies"] = both;
    }
}
