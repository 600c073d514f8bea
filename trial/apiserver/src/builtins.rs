//! The semantics of built-in kinds: defaults, fields that the server sets, and validation. The submodules contain the
//! code for specific kinds.

mod autoscaler;
pub(crate) mod bootstrap;
mod custom_resource_definition;
mod network;
mod persistent_volume_claim;
mod pod;
pub(crate) mod pod_resources;
pub(crate) mod pod_subresources;
mod service;
pub(crate) mod signing_request;
mod validation;
mod webhook;
mod workloads;

use serde_json::map::Entry;
use serde_json::{Value, json};

use crate::clock;
use crate::resource::{Resource, Subresource};
pub(crate) use validation::{metadata, validate};

/// Sets `value[key]` if it is absent.
fn set(value: &mut Value, key: &str, default: Value) {
    if let Some(object) = value.as_object_mut() {
        object.entry(key.to_owned()).or_insert(default);
    }
}

/// Sets absent fields of an object, and of its nested objects.
fn fill(value: &mut Value, defaults: Value) {
    let (Value::Object(object), Value::Object(defaults)) = (value, defaults) else {
        return;
    };
    for (field, default) in defaults {
        match object.entry(field) {
            Entry::Occupied(mut known) => fill(known.get_mut(), default),
            Entry::Vacant(absent) => drop(absent.insert(default)),
        }
    }
}

/// Sets absent fields of the object at a JSON pointer, if the object exists.
fn fill_at(value: &mut Value, pointer: &str, defaults: Value) {
    if let Some(found) = value.pointer_mut(pointer) {
        fill(found, defaults);
    }
}

/// Returns the items of a list field, or none if the field is absent.
fn items<'a>(value: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    value
        .get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Sets the defaults of an object of a built-in kind.
pub(crate) fn default(resource: &Resource, value: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => namespace(value),
        ("", "services") => service::default(value),
        ("", "secrets") => secret(value),
        ("", "pods") => pod::pod(value),
        ("", "podtemplates") => workloads::template(value),
        ("", "nodes") => node(value),
        ("", "persistentvolumeclaims") => persistent_volume_claim::claim(value),
        ("", "persistentvolumes") => {
            let defaults =
                json!({"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"});
            fill_at(value, "/spec", defaults);
            fill_at(value, "/spec/hostPath", json!({"type": ""}));
        }
        ("", "endpoints") => network::endpoints(value),
        ("", "events") => event(value, "source", ["firstTimestamp", "lastTimestamp"]),
        ("", "limitranges") => limit_range(value),
        ("apps", "deployments") => workloads::deployment(value),
        ("apps", "replicasets") => {
            fill_at(value, "/spec", json!({"replicas": 1}));
            workloads::template(&mut value["spec"]);
        }
        ("", "replicationcontrollers") => workloads::replication_controller(value),
        ("apps", "statefulsets") => workloads::stateful_set(value),
        ("apps", "daemonsets") => workloads::daemon_set(value),
        ("batch", "jobs") => workloads::job(value),
        ("batch", "cronjobs") => workloads::cron_job(value),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler::default(resource, value),
        ("networking.k8s.io", "networkpolicies") => network::network_policy(value),
        ("networking.k8s.io", "ingressclasses") => {
            fill_at(value, "/spec/parameters", json!({"scope": "Cluster"}));
        }
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(value),
        ("coordination.k8s.io", "leases")
        | ("", "resourcequotas")
        | ("policy", "poddisruptionbudgets") => set(value, "spec", json!({})),
        ("events.k8s.io", "events") => event(
            value,
            "deprecatedSource",
            ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"],
        ),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            role_binding(value);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            custom_resource_definition::default(value);
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            set(value, "preemptionPolicy", json!("PreemptLowerPriority"));
        }
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => webhook::default(resource, value),
        ("storage.k8s.io", "storageclasses") => {
            let immediate = json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
            fill(value, immediate);
        }
        _ => {}
    }
}

/// Sets, keeps or removes the fields that the server determines.
pub(crate) fn set_system_fields(
    resource: &Resource,
    value: &mut Value,
    old: Option<&Value>,
    subresource: Option<Subresource>,
) {
    let creating = old.is_none();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => {
            service::adapt(value, old);
            if subresource.is_none() {
                service::clear_addresses(value);
            }
        }
        ("", "persistentvolumeclaims") => {
            persistent_volume_claim::copy_data_source(&mut value["spec"], creating);
        }
        ("", "serviceaccounts") => keep_secret_names(value),
        ("coordination.k8s.io", "leases") => remove_coordination(value),
        ("apps", "daemonsets") => {
            if let Some(old) = old {
                workloads::update_template_generation(value, old);
            }
        }
        ("", "pods") => {
            pod::admit(&mut value["spec"]);
            if let Some(old) = old.filter(|_| subresource == Some(Subresource::Status)) {
                pod_subresources::keep_observed(&mut value["status"], &old["status"]);
            }
        }
        ("batch", "jobs") if creating => workloads::generate_job_selector(value),
        ("", "namespaces") if creating => add_finalizer(value),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            if let Some(old) = old {
                signing_request::set_condition_times(value, old, subresource);
            }
        }
        _ => {}
    }
    let complete = creating || subresource == Some(Subresource::Status) && !resource.is("", "pods");
    if complete && let Some(Value::Object(first)) = first_status(resource, value) {
        set(value, "status", json!({}));
        for (field, zero) in first {
            set(&mut value["status"], &field, zero);
        }
    }
}

/// Returns the status of a new object for the kinds that always have a status.
fn first_status(resource: &Resource, value: &Value) -> Option<Value> {
    Some(match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => json!({"phase": "Active"}),
        ("", "pods") => json!({"phase": "Pending", "qosClass": pod::qos_class(&value["spec"])}),
        ("", "persistentvolumeclaims") => json!({"phase": "Pending"}),
        ("", "persistentvolumes") => {
            json!({"phase": "Pending", "lastPhaseTransitionTime": clock::now()})
        }
        ("autoscaling", "horizontalpodautoscalers") => {
            json!({"desiredReplicas": 0, "currentMetrics": null})
        }
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({"loadBalancer": {}}),
        ("", "replicationcontrollers") | ("apps", "replicasets") => json!({"replicas": 0}),
        ("apps", "statefulsets") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "daemonsets") => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        ("policy", "poddisruptionbudgets") => json!({
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }),
        ("", "resourcequotas")
        | ("apps", "deployments")
        | ("batch", "jobs" | "cronjobs")
        | ("certificates.k8s.io", "certificatesigningrequests") => json!({}),
        _ => return None,
    })
}

/// Sets the defaults of a node, including fields that kube-apiserver always writes.
fn node(value: &mut Value) {
    set(value, "spec", json!({}));
    let range = value["spec"].get("podCIDR").cloned();
    if let Some(range) = range {
        set(&mut value["spec"], "podCIDRs", json!([range]));
    }
    set(value, "status", json!({}));
    let status = &mut value["status"];
    let capacity = status.get("capacity").cloned();
    if let Some(capacity) = capacity {
        set(status, "allocatable", json!({}));
        for (name, quantity) in capacity.as_object().into_iter().flatten() {
            set(&mut status["allocatable"], name, quantity.clone());
        }
    }
    for condition in items(status, "conditions") {
        set(condition, "lastHeartbeatTime", Value::Null);
        set(condition, "lastTransitionTime", Value::Null);
    }
    fill(
        status,
        json!({
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "", "architecture": "",
            },
        }),
    );
}

/// Sets the defaults of an event. `source` and `times` are the names of fields, which differ between the API groups of
/// events.
fn event(value: &mut Value, source: &str, times: [&str; 2]) {
    set(value, source, json!({}));
    for time in times {
        set(value, time, Value::Null);
    }
    set(value, "eventTime", Value::Null);
    if source == "source" {
        set(value, "reportingComponent", json!(""));
        set(value, "reportingInstance", json!(""));
    }
}

/// Sets the label that contains the namespace's name. A new namespace with `generateName` has no name yet, and gets no
/// label here.
pub(crate) fn namespace(value: &mut Value) {
    let name = value["metadata"]["name"].clone();
    if !name.is_string() {
        return;
    }
    if !value["metadata"]["labels"].is_object() {
        value["metadata"]["labels"] = json!({});
    }
    value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
}

/// Adds the finalizer that prevents the removal of a namespace until the namespace is empty.
fn add_finalizer(value: &mut Value) {
    const OWN: &str = "kubernetes";
    let spec = &mut value["spec"];
    if !spec["finalizers"].is_array() {
        spec["finalizers"] = json!([]);
    }
    if let Some(all) = spec["finalizers"].as_array_mut()
        && !all.iter().any(|finalizer| finalizer == OWN)
    {
        all.push(json!(OWN));
    }
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

fn role_binding(value: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    // An empty API group also gets the default.
    if value["roleRef"]["apiGroup"] == "" {
        value["roleRef"]["apiGroup"] = json!(GROUP);
    }
    set(&mut value["roleRef"], "apiGroup", json!(GROUP));
    for subject in items(value, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", json!(GROUP));
        }
    }
}

/// Removes the fields of coordinated leader election, which this server does not support.
fn remove_coordination(value: &mut Value) {
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.retain(|field, _| !matches!(field.as_str(), "strategy" | "preferredHolder"));
    }
}

/// Removes all fields except the name from the secret references of a service account.
fn keep_secret_names(value: &mut Value) {
    for secret in items(value, "secrets") {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|field, _| field == "name");
        }
    }
}

fn limit_range(value: &mut Value) {
    set(value, "spec", json!({}));
    set(&mut value["spec"], "limits", Value::Null);
    for limit in items(&mut value["spec"], "limits") {
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
