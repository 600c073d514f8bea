//! Table cells of Services, Endpoints, EndpointSlices and Ingresses.

use serde_json::{Value, json};

use super::cell::{int, joined, string};

pub(super) fn service_ports(o: &Value) -> Value {
    let port = |p: &Value| {
        let node = int(&p["nodePort"]);
        let node = if node > 0 {
            format!(":{node}")
        } else {
            String::new()
        };
        format!(
            "{}{node}/{}",
            int(&p["port"]),
            p["protocol"].as_str().unwrap_or("TCP")
        )
    };
    joined(&o["spec"]["ports"], port, "<none>")
}

pub(super) fn external_ip(o: &Value) -> Value {
    match o["spec"]["type"].as_str() {
        Some("LoadBalancer") => balancer_addresses(o, "<pending>"),
        Some("ExternalName") => o["spec"]["externalName"].clone(),
        _ => joined(&o["spec"]["externalIPs"], string, "<none>"),
    }
}

/// Returns the first three addresses of an Endpoints object, and the number of further addresses.
pub(super) fn endpoints(object: &Value) -> Value {
    const SHOWN: usize = 3;
    let mut all = Vec::new();
    for subset in object["subsets"].as_array().into_iter().flatten() {
        for port in subset["ports"].as_array().into_iter().flatten() {
            for address in subset["addresses"].as_array().into_iter().flatten() {
                all.push(format!(
                    "{}:{}",
                    string(&address["ip"]),
                    string(&port["port"])
                ));
            }
        }
    }
    if all.is_empty() {
        return json!("<none>");
    }
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let shown = all.join(",");
    json!(if more > 0 {
        format!("{shown} + {more} more...")
    } else {
        shown
    })
}

pub(super) fn ingress_hosts(o: &Value) -> Value {
    joined(
        &o["spec"]["rules"],
        |r| r["host"].as_str().unwrap_or("*").to_owned(),
        "*",
    )
}

pub(super) fn ingress_ports(o: &Value) -> Value {
    json!(if o["spec"]["tls"].is_array() {
        "80, 443"
    } else {
        "80"
    })
}

/// Returns the addresses of a load balancer, or `otherwise` if there are none.
pub(super) fn balancer_addresses(o: &Value, otherwise: &str) -> Value {
    let address = |i: &Value| string(i.get("ip").unwrap_or_else(|| &i["hostname"]));
    joined(&o["status"]["loadBalancer"]["ingress"], address, otherwise)
}

pub(super) fn slice_ports(o: &Value) -> Value {
    joined(&o["ports"], |port| string(&port["port"]), "<unset>")
}

pub(super) fn slice_endpoints(o: &Value) -> Value {
    joined(&o["endpoints"], |e| string(&e["addresses"][0]), "<unset>")
}
