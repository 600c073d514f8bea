//! How the lists and maps of built-in kinds merge: the facts that Kubernetes keeps in Go struct tags and that
//! the OpenAPI types of k8s-openapi do not carry.

use serde_json::{Value, json};

use super::{ListType, Schema, Strategy};

/// How one field merges.
enum Merge {
    /// By one key, the same for strategic merge and apply.
    Key(&'static str),
    /// By one key in strategic merge, by several in apply.
    Keys(&'static str, &'static [&'static str]),
    /// By key in strategic merge, atomic in apply.
    StrategicOnly(&'static str),
    /// Atomic in strategic merge, by keys in apply.
    ApplyOnly(&'static [&'static str]),
    /// A list of scalars.
    Set,
    /// Atomic in strategic merge, a set in apply.
    ApplySet,
    /// Merge by key and drop keys the patch does not name.
    Retain(&'static str),
    /// An object replaced as a whole by apply.
    AtomicMap,
    /// An object whose keys the patch may restrict.
    RetainMap,
    /// An object replaced as a whole by strategic merge.
    ReplaceMap,
}

const TABLE: &[(&str, &str, Merge)] = &[
    ("ObjectMeta", "finalizers", Merge::Set),
    ("ObjectMeta", "ownerReferences", Merge::Key("uid")),
    ("PodSpec", "containers", Merge::Key("name")),
    ("PodSpec", "initContainers", Merge::Key("name")),
    ("PodSpec", "ephemeralContainers", Merge::Key("name")),
    ("PodSpec", "volumes", Merge::Retain("name")),
    ("PodSpec", "imagePullSecrets", Merge::Key("name")),
    ("PodSpec", "hostAliases", Merge::Key("ip")),
    (
        "PodSpec",
        "topologySpreadConstraints",
        Merge::Keys("topologyKey", &["topologyKey", "whenUnsatisfiable"]),
    ),
    ("PodSpec", "resourceClaims", Merge::Retain("name")),
    ("PodSpec", "schedulingGates", Merge::Key("name")),
    ("PodSpec", "nodeSelector", Merge::AtomicMap),
    (
        "Container",
        "ports",
        Merge::Keys("containerPort", &["containerPort", "protocol"]),
    ),
    ("Container", "env", Merge::Key("name")),
    ("Container", "volumeMounts", Merge::Key("mountPath")),
    ("Container", "volumeDevices", Merge::Key("devicePath")),
    ("EphemeralContainer", "env", Merge::Key("name")),
    (
        "EphemeralContainer",
        "ports",
        Merge::Keys("containerPort", &["containerPort", "protocol"]),
    ),
    (
        "EphemeralContainer",
        "volumeDevices",
        Merge::Key("devicePath"),
    ),
    (
        "ContainerStatus",
        "allocatedResourcesStatus",
        Merge::Key("name"),
    ),
    ("ContainerStatus", "volumeMounts", Merge::Key("mountPath")),
    (
        "ResourceStatus",
        "resources",
        Merge::ApplyOnly(&["resourceID"]),
    ),
    ("PodStatus", "resourceClaimStatuses", Merge::Retain("name")),
    (
        "PodFailurePolicyOnExitCodesRequirement",
        "values",
        Merge::ApplySet,
    ),
    ("ContainerRestartRuleOnExitCodes", "values", Merge::ApplySet),
    ("UncountedTerminatedPods", "failed", Merge::ApplySet),
    ("UncountedTerminatedPods", "succeeded", Merge::ApplySet),
    ("Endpoint", "addresses", Merge::ApplySet),
    ("ReplicationControllerSpec", "selector", Merge::AtomicMap),
    ("EndpointAddress", "", Merge::AtomicMap),
    ("EndpointPort", "", Merge::AtomicMap),
    ("FileKeySelector", "", Merge::AtomicMap),
    ("OwnerReference", "", Merge::AtomicMap),
    ("RawExtension", "", Merge::AtomicMap),
    ("ScopeSelector", "", Merge::AtomicMap),
    ("SecretReference", "", Merge::AtomicMap),
    ("ServiceBackendPort", "", Merge::AtomicMap),
    ("TopologySelectorTerm", "", Merge::AtomicMap),
    ("TypedLocalObjectReference", "", Merge::AtomicMap),
    (
        "EphemeralContainer",
        "volumeMounts",
        Merge::Key("mountPath"),
    ),
    (
        "ResourceRequirements",
        "claims",
        Merge::ApplyOnly(&["name"]),
    ),
    ("PodStatus", "conditions", Merge::Key("type")),
    ("PodStatus", "podIPs", Merge::Key("ip")),
    ("PodStatus", "hostIPs", Merge::StrategicOnly("ip")),
    (
        "ServiceSpec",
        "ports",
        Merge::Keys("port", &["port", "protocol"]),
    ),
    ("ServiceSpec", "selector", Merge::AtomicMap),
    ("ServiceStatus", "conditions", Merge::Key("type")),
    ("ServiceAccount", "secrets", Merge::Key("name")),
    ("NamespaceStatus", "conditions", Merge::Key("type")),
    ("NodeSpec", "podCIDRs", Merge::Set),
    ("NodeStatus", "conditions", Merge::Key("type")),
    ("NodeStatus", "addresses", Merge::Key("type")),
    (
        "autoscaling.v1.CrossVersionObjectReference",
        "",
        Merge::AtomicMap,
    ),
    (
        "MutatingWebhookConfiguration",
        "webhooks",
        Merge::Key("name"),
    ),
    (
        "ValidatingWebhookConfiguration",
        "webhooks",
        Merge::Key("name"),
    ),
    ("MutatingWebhook", "matchConditions", Merge::Key("name")),
    ("ValidatingWebhook", "matchConditions", Merge::Key("name")),
    (
        "PersistentVolumeClaimStatus",
        "conditions",
        Merge::Key("type"),
    ),
    (
        "ReplicationControllerStatus",
        "conditions",
        Merge::Key("type"),
    ),
    ("DeploymentSpec", "strategy", Merge::RetainMap),
    ("DeploymentStatus", "conditions", Merge::Key("type")),
    ("ReplicaSetStatus", "conditions", Merge::Key("type")),
    ("StatefulSetStatus", "conditions", Merge::Key("type")),
    ("DaemonSetStatus", "conditions", Merge::Key("type")),
    ("JobStatus", "conditions", Merge::StrategicOnly("type")),
    ("LabelSelector", "", Merge::AtomicMap),
    ("ObjectReference", "", Merge::AtomicMap),
    ("LocalObjectReference", "", Merge::AtomicMap),
    ("ObjectFieldSelector", "", Merge::AtomicMap),
    ("ResourceFieldSelector", "", Merge::AtomicMap),
    ("ConfigMapKeySelector", "", Merge::AtomicMap),
    ("SecretKeySelector", "", Merge::AtomicMap),
    ("NodeSelector", "", Merge::AtomicMap),
    ("NodeSelectorTerm", "", Merge::AtomicMap),
    ("RoleRef", "", Merge::AtomicMap),
    ("Subject", "", Merge::AtomicMap),
    (
        "CustomResourceDefinitionStatus",
        "conditions",
        Merge::ApplyOnly(&["type"]),
    ),
    ("PodDisruptionBudgetSpec", "selector", Merge::ReplaceMap),
    (
        "PodDisruptionBudgetStatus",
        "conditions",
        Merge::Key("type"),
    ),
    (
        "HorizontalPodAutoscalerStatus",
        "conditions",
        Merge::Key("type"),
    ),
];

/// The same as extensions of an OpenAPI schema.
pub(super) fn extensions(definition: &str, property: &str) -> Vec<(&'static str, Value)> {
    let mut schema = Schema::default();
    annotate(definition, property, &mut schema);
    let mut all = Vec::new();
    match schema.list_type {
        ListType::Atomic => {}
        ListType::Set => all.push(("x-kubernetes-list-type", json!("set"))),
        ListType::Map(keys) => {
            all.push(("x-kubernetes-list-type", json!("map")));
            all.push(("x-kubernetes-list-map-keys", json!(keys)));
        }
    }
    if schema.map_atomic {
        all.push(("x-kubernetes-map-type", json!("atomic")));
    }
    if let Some(strategy) = schema.strategy {
        let words = match (strategy.retain_keys, &strategy.merge_key) {
            _ if strategy.replaces => "replace",
            (true, None) => "retainKeys",
            (true, Some(_)) => "merge,retainKeys",
            (false, _) => "merge",
        };
        all.push(("x-kubernetes-patch-strategy", json!(words)));
        if let Some(key) = strategy.merge_key {
            all.push(("x-kubernetes-patch-merge-key", json!(key)));
        }
    }
    all
}

/// Adds merge metadata to `schema`, which is `property` of `definition` (or the definition itself when empty).
pub(super) fn annotate(definition: &str, property: &str, schema: &mut Schema) {
    let is = |name: &str| {
        let rest = definition.strip_suffix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let Some((_, _, merge)) = TABLE.iter().find(|(d, p, _)| *p == property && is(d)) else {
        return;
    };
    let by = |key: &str| {
        Some(Strategy {
            merge_key: Some(key.to_owned()),
            ..Strategy::default()
        })
    };
    let map = |keys: &[&str]| ListType::Map(keys.iter().map(|k| (*k).to_owned()).collect());
    match merge {
        Merge::Key(key) => (schema.strategy, schema.list_type) = (by(key), map(&[key])),
        Merge::Keys(key, keys) => (schema.strategy, schema.list_type) = (by(key), map(keys)),
        Merge::StrategicOnly(key) => schema.strategy = by(key),
        Merge::ApplyOnly(keys) => schema.list_type = map(keys),
        Merge::Set => {
            (schema.strategy, schema.list_type) = (Some(Strategy::default()), ListType::Set);
        }
        Merge::ApplySet => schema.list_type = ListType::Set,
        Merge::Retain(key) => {
            schema.strategy = Some(Strategy {
                merge_key: Some((*key).to_owned()),
                retain_keys: true,
                ..Strategy::default()
            });
            schema.list_type = map(&[key]);
        }
        Merge::AtomicMap => schema.map_atomic = true,
        Merge::RetainMap => {
            schema.strategy = Some(Strategy {
                retain_keys: true,
                ..Strategy::default()
            });
        }
        Merge::ReplaceMap => {
            schema.strategy = Some(Strategy {
                replaces: true,
                ..Strategy::default()
            });
        }
    }
}
