//! What is special about built-in kinds: the defaults a real server stores, and the checks it makes.

pub(crate) mod metadata;
mod pod;
pub(crate) mod seed;
mod validation;
mod workloads;

use serde_json::{Value, json};

use crate::registry::Resource;
pub(crate) use validation::validate;

/// Sets `value[key]` if it is absent.
fn set(value: &mut Value, key: &str, default: Value) {
    if let Some(object) = value.as_object_mut() {
        object.entry(key.to_owned()).or_insert(default);
    }
}

/// Fills in the defaults of a built-in kind.
pub(crate) fn default(resource: &Resource, value: &mut Value, creating: bool) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => namespace(value, creating),
        ("", "services") => service(value),
        ("", "secrets") => secret(value),
        ("", "pods") => {
            pod::spec(&mut value["spec"]);
            pod::node_failure_tolerations(&mut value["spec"]);
            if creating {
                value["status"] =
                    json!({"phase": "Pending", "qosClass": pod::qos_class(&value["spec"])});
            }
        }
        ("", "persistentvolumeclaims") => {
            set(&mut value["spec"], "volumeMode", json!("Filesystem"));
            if creating {
                value["status"] = json!({"phase": "Pending"});
            }
        }
        ("", "persistentvolumes") => {
            set(&mut value["spec"], "volumeMode", json!("Filesystem"));
            set(
                &mut value["spec"],
                "persistentVolumeReclaimPolicy",
                json!("Retain"),
            );
            if creating {
                value["status"] = json!({"phase": "Pending"});
            }
        }
        ("apps", "deployments") => workloads::deployment(value),
        ("apps", "replicasets") => workloads::replica_set(value),
        ("", "replicationcontrollers") => workloads::replication_controller(value),
        ("apps", "statefulsets") => workloads::stateful_set(value),
        ("apps", "daemonsets") => workloads::daemon_set(value),
        ("batch", "jobs") => workloads::job(value, creating),
        ("batch", "cronjobs") => workloads::cron_job(value),
        ("autoscaling", "horizontalpodautoscalers") => {
            set(&mut value["spec"], "minReplicas", json!(1));
        }
        ("networking.k8s.io", "networkpolicies") => network_policy(value),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            role_binding(value);
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            set(value, "preemptionPolicy", json!("PreemptLowerPriority"));
        }
        ("storage.k8s.io", "storageclasses") => {
            set(value, "reclaimPolicy", json!("Delete"));
            set(value, "volumeBindingMode", json!("Immediate"));
        }
        ("", "limitranges") => limit_range(value),
        _ => {}
    }
    // A missing status is written as an empty object for the kinds that always have one.
    let workload = matches!(resource.group.as_str(), "apps" | "batch") && resource.status;
    if creating && (workload || resource.is("", "services")) {
        let empty = if resource.plural == "services" {
            json!({"loadBalancer": {}})
        } else {
            empty_status(resource)
        };
        set(value, "status", empty);
    }
}

fn empty_status(resource: &Resource) -> Value {
    match resource.plural.as_str() {
        "replicasets" => json!({"replicas": 0}),
        "statefulsets" => json!({"replicas": 0, "availableReplicas": 0}),
        "daemonsets" => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        _ => json!({}),
    }
}

fn namespace(value: &mut Value, creating: bool) {
    let name = value["metadata"]["name"].clone();
    if !value["metadata"]["labels"].is_object() {
        value["metadata"]["labels"] = json!({});
    }
    value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    if creating {
        value["spec"]["finalizers"] = json!(["kubernetes"]);
        value["status"] = json!({"phase": "Active"});
    }
}

fn service(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "type", json!("ClusterIP"));
    set(spec, "sessionAffinity", json!("None"));
    if spec["type"] != "ExternalName" {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
        set(spec, "ipFamilyPolicy", json!("SingleStack"));
        set(spec, "ipFamilies", json!(["IPv4"]));
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            spec["clusterIP"] = json!(fabricated_ip());
        }
        let address = spec["clusterIP"].clone();
        set(spec, "clusterIPs", json!([address]));
    }
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        set(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        set(port, "targetPort", number);
    }
}

/// An address of the usual service range. Nothing routes it, so it need not be unique.
fn fabricated_ip() -> String {
    let random = uuid::Uuid::new_v4();
    let [a, b, ..] = *random.as_bytes();
    format!("10.{}.{a}.{}", 96 + (b & 0x0f), b.max(1))
}

fn secret(value: &mut Value) {
    set(value, "type", json!("Opaque"));
    if let Some(plain) = value.as_object_mut().and_then(|o| o.remove("stringData")) {
        use base64::Engine;
        for (key, text) in plain.as_object().into_iter().flatten() {
            let encoded =
                base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
            value["data"][key.as_str()] = json!(encoded);
        }
    }
}

fn network_policy(value: &mut Value) {
    if value["spec"].get("policyTypes").is_none() && value["spec"].is_object() {
        let egress = value["spec"]
            .get("egress")
            .is_some_and(|e| e.as_array().is_some_and(|l| !l.is_empty()));
        value["spec"]["policyTypes"] = if egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
    }
    for direction in ["ingress", "egress"] {
        for rule in value["spec"][direction]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            for port in rule["ports"].as_array_mut().into_iter().flatten() {
                set(port, "protocol", json!("TCP"));
            }
        }
    }
    if value["spec"]["ingress"].is_null()
        && let Some(spec) = value["spec"].as_object_mut()
    {
        spec.remove("ingress");
        if spec.get("egress").is_some_and(Value::is_null) {
            spec.remove("egress");
        }
    }
}

fn role_binding(value: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    set(&mut value["roleRef"], "apiGroup", json!(GROUP));
    for subject in value["subjects"].as_array_mut().into_iter().flatten() {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", json!(GROUP));
        }
    }
}

fn limit_range(value: &mut Value) {
    for limit in value["spec"]["limits"].as_array_mut().into_iter().flatten() {
        if limit["type"] != "Container" {
            continue;
        }
        let (max, min) = (limit["max"].clone(), limit["min"].clone());
        for (key, quantity) in max.as_object().into_iter().flatten() {
            set_entry(limit, "default", key, quantity);
        }
        let default = limit["default"].clone();
        for source in [&default, &min] {
            for (key, quantity) in source.as_object().into_iter().flatten() {
                set_entry(limit, "defaultRequest", key, quantity);
            }
        }
    }
}

fn set_entry(value: &mut Value, map: &str, key: &str, quantity: &Value) {
    if !value[map].is_object() {
        value[map] = json!({});
    }
    set(&mut value[map], key, quantity.clone());
}
