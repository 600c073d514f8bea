//! Defaults of network kinds other than Services.

use serde_json::{Value, json};

use super::{fill, items, set};

pub(super) fn network_policy(value: &mut Value) {
    fill(value, json!({"spec": {"podSelector": {}}}));
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
        fill(port, json!({"name": "", "protocol": "TCP"}));
    }
}
