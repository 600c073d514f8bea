//! The columns of services, endpoints and network policies.

use serde_json::{Value, json};

use super::cell::{AGE, int, joined, labels, or, selector, string, text, wide};
use crate::table::BuiltinColumn;

fn service_ports(o: &Value) -> Value {
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

fn external_ip(o: &Value) -> Value {
    let address = |i: &Value| string(i.get("ip").unwrap_or_else(|| &i["hostname"]));
    match o["spec"]["type"].as_str() {
        Some("LoadBalancer") => joined(
            &o["status"]["loadBalancer"]["ingress"],
            address,
            "<pending>",
        ),
        Some("ExternalName") => o["spec"]["externalName"].clone(),
        _ => joined(&o["spec"]["externalIPs"], string, "<none>"),
    }
}

/// Returns the first addresses of an Endpoints object.
fn endpoints(object: &Value) -> Value {
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

fn ingress_hosts(o: &Value) -> Value {
    joined(
        &o["spec"]["rules"],
        |r| r["host"].as_str().unwrap_or("*").to_owned(),
        "*",
    )
}

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "services") => {
            const {
                &[
                    text("Type", |o| o["spec"]["type"].clone()),
                    text("Cluster-IP", |o| or(&o["spec"]["clusterIP"], "<none>")),
                    text("External-IP", external_ip),
                    text("Port(s)", service_ports),
                    AGE,
                    wide("Selector", |o| {
                        json!(match labels(&o["spec"]["selector"]) {
                            s if s.is_empty() => "<none>".to_owned(),
                            s => s,
                        })
                    }),
                ]
            }
        }
        ("", "endpoints") => const { &[text("Endpoints", endpoints), AGE] },
        ("discovery.k8s.io", "endpointslices") => {
            const {
                &[
                    text("AddressType", |o| o["addressType"].clone()),
                    text("Ports", |o| {
                        joined(&o["ports"], |p| string(&p["port"]), "<unset>")
                    }),
                    text("Endpoints", |o| {
                        joined(&o["endpoints"], |e| string(&e["addresses"][0]), "<unset>")
                    }),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "ingresses") => {
            const {
                &[
                    text("Class", |o| or(&o["spec"]["ingressClassName"], "<none>")),
                    text("Hosts", ingress_hosts),
                    text("Address", |o| {
                        let address =
                            |i: &Value| string(i.get("ip").unwrap_or_else(|| &i["hostname"]));
                        joined(&o["status"]["loadBalancer"]["ingress"], address, "")
                    }),
                    text("Ports", |o| {
                        json!(if o["spec"]["tls"].is_array() {
                            "80, 443"
                        } else {
                            "80"
                        })
                    }),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "ingressclasses") => {
            const {
                &[
                    text("Controller", |o| o["spec"]["controller"].clone()),
                    text("Parameters", |o| {
                        or(&o["spec"]["parameters"]["name"], "<none>")
                    }),
                    AGE,
                ]
            }
        }
        ("networking.k8s.io", "networkpolicies") => {
            const {
                &[
                    text("Pod-Selector", |o| {
                        json!(selector(&o["spec"]["podSelector"]))
                    }),
                    AGE,
                ]
            }
        }
        _ => return None,
    })
}
