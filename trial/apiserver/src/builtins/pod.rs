//! Defaults of pods, and of pod specs in templates.

use serde_json::{Value, json};

use super::{fill, fill_at, items, persistent_volume_claim, pod_subresources, set};
use crate::builtins::pod_resources::PodResources;

/// Sets the defaults of a pod.
pub(super) fn pod(value: &mut Value) {
    let spec = &mut value["spec"];
    self::spec(spec);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            requests_from_limits(&mut container["resources"]);
        }
    }
    set(spec, "enableServiceLinks", json!(true));
    requests_of_all(value);
    let spec = &mut value["spec"];
    // A negative grace period of a pod becomes one second. A pod template keeps its negative value.
    let grace = "terminationGracePeriodSeconds";
    if spec[grace].as_i64().is_some_and(|seconds| seconds < 0) {
        spec[grace] = json!(1);
    }
    // Unknown times are null rather than absent.
    if let Some(status) = value.get_mut("status") {
        for condition in items(status, "conditions") {
            set(condition, "lastProbeTime", Value::Null);
            set(condition, "lastTransitionTime", Value::Null);
        }
    }
}

/// Adds the fields that admission plugins of Kubernetes add to every pod.
pub(super) fn admit(spec: &mut Value) {
    node_failure_tolerations(spec);
}

/// Sets the defaults of the spec of a pod or of a pod template.
pub(super) fn spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill(
        spec,
        json!({
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
        }),
    );
    match (
        spec.get("serviceAccountName").cloned(),
        spec.get("serviceAccount").cloned(),
    ) {
        (Some(name), _) => spec["serviceAccount"] = name,
        (None, Some(name)) => spec["serviceAccountName"] = name,
        (None, None) => {}
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        if !spec.get(list).is_some_and(Value::is_array) {
            continue;
        }
        for container in spec[list].as_array_mut().into_iter().flatten() {
            self::container(container, host_network);
        }
    }
    if spec.get("volumes").is_some() {
        for volume in items(spec, "volumes") {
            self::volume(volume);
        }
    }
}

/// Seconds that a pod stays on a failed node, unless the pod declares a toleration.
const NODE_FAILURE_TOLERATION: i64 = 300;

/// Adds the tolerations of Kubernetes' DefaultTolerationSeconds plugin. With these tolerations, a pod stays for five
/// minutes on a node that is unreachable or not ready.
fn node_failure_tolerations(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let slot = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = slot.as_array_mut() else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let covers = |toleration: &Value| {
            let text = |field: &str| toleration[field].as_str().unwrap_or_default();
            matches!(text("effect"), "" | "NoExecute")
                && (text("key") == key || text("key").is_empty())
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": NODE_FAILURE_TOLERATION,
            }));
        }
    }
}

/// JSON pointers to the HTTP requests in the probes and lifecycle hooks of a container.
const HTTP_ACTIONS: [&str; 5] = [
    "/livenessProbe/httpGet",
    "/readinessProbe/httpGet",
    "/startupProbe/httpGet",
    "/lifecycle/postStart/httpGet",
    "/lifecycle/preStop/httpGet",
];

fn container(container: &mut Value, host_network: bool) {
    if !container.is_object() {
        return;
    }
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill(
        container,
        json!({
            "imagePullPolicy": policy,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {},
        }),
    );
    for port in items(container, "ports") {
        set(port, "protocol", json!("TCP"));
        if host_network {
            let number = port["containerPort"].clone();
            set(port, "hostPort", number);
        }
    }
    for probe in ["/livenessProbe", "/readinessProbe", "/startupProbe"] {
        let counts = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        fill_at(container, probe, counts);
        fill_at(container, &format!("{probe}/grpc"), json!({"service": ""}));
    }
    for action in HTTP_ACTIONS {
        fill_at(container, action, json!({"path": "/", "scheme": "HTTP"}));
    }
    for variable in items(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            references(source);
        }
    }
}

/// Sets each absent request of a container to the container's limit of the same resource.
fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    set(resources, "requests", json!({}));
    for (name, quantity) in limits {
        set(&mut resources["requests"], &name, quantity);
    }
}

/// Sets absent pod-level requests of a pod that has pod-level resources. The default is the sum of the container
/// requests, or else the pod-level limit.
fn requests_of_all(pod: &mut Value) {
    let resources = &pod["spec"]["resources"];
    let is_set = ["requests", "limits"]
        .iter()
        .any(|part| pod_subresources::amounts(resources, part).is_some());
    if !is_set {
        return;
    }
    let shared =
        |name: &String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    let limits = pod_subresources::amounts(resources, "limits")
        .cloned()
        .unwrap_or_default();
    let needs = PodResources::of_containers(pod).requests;
    let requests = needs
        .into_iter()
        .map(|(name, amount)| (name, json!(amount.to_string())));
    let defaults: Vec<(String, Value)> = requests
        .chain(limits)
        .filter(|(name, _)| shared(name))
        .collect();
    let resources = &mut pod["spec"]["resources"];
    for (name, amount) in defaults {
        set(resources, "requests", json!({}));
        set(&mut resources["requests"], &name, amount);
    }
}

/// Sets the defaults of `fieldRef` and `resourceFieldRef`, the references to fields and resources of a pod.
fn references(holder: &mut Value) {
    fill_at(holder, "/fieldRef", json!({"apiVersion": "v1"}));
    fill_at(holder, "/resourceFieldRef", json!({"divisor": "0"}));
}

fn volume(volume: &mut Value) {
    let Some(object) = volume.as_object() else {
        return;
    };
    if object.len() == 1 && object.contains_key("name") {
        volume["emptyDir"] = json!({});
        return;
    }
    for (kind, defaults) in volume_defaults() {
        fill_at(volume, kind, defaults);
    }
    if let Some(image) = volume.get_mut("image").filter(|i| i.is_object()) {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set(image, "pullPolicy", json!(policy));
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        items(files, "items").for_each(references);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items(projected, "sources") {
            fill_at(
                source,
                "/serviceAccountToken",
                json!({"expirationSeconds": 3600}),
            );
            if let Some(files) = source.get_mut("downwardAPI") {
                items(files, "items").for_each(references);
            }
        }
    }
    if let Some(template) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
        set(template, "metadata", json!({}));
        if let Some(spec) = template.get_mut("spec").filter(|s| s.is_object()) {
            persistent_volume_claim::claim_spec(spec);
        }
    }
}

/// Returns the kinds of volumes that have defaults, as JSON pointers, each with its defaults.
fn volume_defaults() -> [(&'static str, Value); 9] {
    let mode = json!({"defaultMode": 0o644});
    let azure =
        json!({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false});
    [
        ("/secret", mode.clone()),
        ("/configMap", mode.clone()),
        ("/projected", mode.clone()),
        ("/downwardAPI", mode),
        ("/hostPath", json!({"type": ""})),
        ("/iscsi", json!({"iscsiInterface": "default"})),
        (
            "/rbd",
            json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ),
        ("/azureDisk", azure),
        (
            "/scaleIO",
            json!({"storageMode": "ThinProvisioned", "fsType": "xfs"}),
        ),
    ]
}

/// Returns the default pull policy of an image.
fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Reports whether an image has the tag `latest`, explicitly or because it has no tag.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Returns the quality-of-service class of a pod.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    let mut count = |resources: &Value| {
        let (limits, requests) = (&resources["limits"], &resources["requests"]);
        for resource in ["cpu", "memory"] {
            any |= !limits[resource].is_null() || !requests[resource].is_null();
            all &= !limits[resource].is_null() && limits[resource] == requests[resource];
        }
    };
    // Pod-level resources take precedence over the resources of the containers.
    let resources = &spec["resources"];
    if resources.as_object().is_some_and(|all| !all.is_empty()) {
        count(resources);
    } else {
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array().into_iter().flatten() {
                count(&container["resources"]);
            }
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_default_to_limits_and_the_pull_policy_depends_on_the_tag() {
        let value = json!({"containers": [{"name": "a", "image": "r:5000/nginx",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
            {"name": "b", "image": "nginx:1.27"}]});
        let mut value = json!({"spec": value});
        pod(&mut value);
        let value = value["spec"].take();
        assert_eq!(
            value["containers"][0]["resources"]["requests"],
            json!({"cpu": "500m", "memory": "1Gi"})
        );
        assert_eq!(value["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(value["containers"][1]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(value["containers"][1]["resources"], json!({}));
        assert_eq!(qos_class(&value), "Burstable");
    }

    #[test]
    fn pods_tolerate_failing_nodes_for_five_minutes_by_default() {
        let not_ready = json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists" });
        let cases = [
            (json!({}), 2),
            (
                json!({ "tolerations": [{ "key": "a", "operator": "Exists" }] }),
                3,
            ),
            (json!({ "tolerations": [{ "operator": "Exists" }] }), 1),
            (json!({ "tolerations": [not_ready] }), 2),
            (
                json!({ "tolerations": [{ "operator": "Exists", "effect": "NoSchedule" }] }),
                3,
            ),
        ];
        for (mut spec, expected) in cases {
            let before = spec.clone();
            node_failure_tolerations(&mut spec);
            assert_eq!(
                spec["tolerations"].as_array().unwrap().len(),
                expected,
                "{before}"
            );
        }
    }
}
