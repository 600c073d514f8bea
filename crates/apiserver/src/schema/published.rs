//! The definitions of built-in kinds as documents show them: what k8s-openapi's types say, with the facts that they
//! leave out and without the fields that they require only because Rust has no zero values. Nothing is validated by
//! these.

use serde_json::{Value, json};

use super::{builtin, merge_keys};

/// Fields of definitions, and below them, where items or values of a map are meant.
type Places = &'static [(&'static str, &'static str)];

/// The values that fields may have.
const VALUES: &[(Places, &[&str])] = &[
    (
        &[("HostPathVolumeSource", "type")],
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    ),
    (&[("ServiceSpec", "ipFamilies/*")], &["", "IPv4", "IPv6"]),
    (&[("NamespaceStatus", "phase")], &["Active", "Terminating"]),
    (
        &[("CronJobSpec", "concurrencyPolicy")],
        &["Allow", "Forbid", "Replace"],
    ),
    (
        &[
            ("Container", "imagePullPolicy"),
            ("EphemeralContainer", "imagePullPolicy"),
            ("ImageVolumeSource", "pullPolicy"),
        ],
        &["Always", "IfNotPresent", "Never"],
    ),
    (
        &[("PodSpec", "restartPolicy")],
        &["Always", "Never", "OnFailure"],
    ),
    (
        &[("PodSecurityContext", "fsGroupChangePolicy")],
        &["Always", "OnRootMismatch"],
    ),
    (
        &[("PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy")],
        &["AlwaysAllow", "IfHealthyBudget"],
    ),
    (
        &[("PersistentVolumeStatus", "phase")],
        &["Available", "Bound", "Failed", "Pending", "Released"],
    ),
    (
        &[("PodStatus", "qosClass")],
        &["BestEffort", "Burstable", "Guaranteed"],
    ),
    (
        &[
            ("ResourceQuotaSpec", "scopes/*"),
            ("ScopedResourceSelectorRequirement", "scopeName"),
        ],
        &[
            "BestEffort",
            "CrossNamespacePodAffinity",
            "NotBestEffort",
            "NotTerminating",
            "PriorityClass",
            "Terminating",
            "VolumeAttributesClass",
        ],
    ),
    (
        &[("VolumeMount", "mountPropagation")],
        &["Bidirectional", "HostToContainer", "None"],
    ),
    (
        &[
            ("PersistentVolumeClaimSpec", "volumeMode"),
            ("PersistentVolumeSpec", "volumeMode"),
        ],
        &["Block", "Filesystem"],
    ),
    (
        &[("PersistentVolumeClaimStatus", "phase")],
        &["Bound", "Lost", "Pending"],
    ),
    (&[("ServiceSpec", "sessionAffinity")], &["ClientIP", "None"]),
    (
        &[
            ("ServiceSpec", "externalTrafficPolicy"),
            ("ServiceSpec", "internalTrafficPolicy"),
        ],
        &["Cluster", "Local"],
    ),
    (
        &[("PodSpec", "dnsPolicy")],
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ),
    (
        &[("ServiceSpec", "type")],
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ),
    (
        &[("PersistentVolumeClaimStatus", "allocatedResourceStatuses/*")],
        &[
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
            "NodeResizePending",
        ],
    ),
    (
        &[("PodFailurePolicyRule", "action")],
        &["Count", "FailIndex", "FailJob", "Ignore"],
    ),
    (
        &[("AzureDiskVolumeSource", "kind")],
        &["Dedicated", "Managed", "Shared"],
    ),
    (
        &[("SecurityContext", "procMount")],
        &["Default", "Unmasked"],
    ),
    (
        &[
            ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
            ("StorageClass", "reclaimPolicy"),
        ],
        &["Delete", "Recycle", "Retain"],
    ),
    (
        &[("TopologySpreadConstraint", "whenUnsatisfiable")],
        &["DoNotSchedule", "ScheduleAnyway"],
    ),
    (
        &[("NodeSelectorRequirement", "operator")],
        &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"],
    ),
    (
        &[("ScopedResourceSelectorRequirement", "operator")],
        &["DoesNotExist", "Exists", "In", "NotIn"],
    ),
    (
        &[("NetworkPolicySpec", "policyTypes/*")],
        &["Egress", "Ingress"],
    ),
    (
        &[("Toleration", "operator")],
        &["Equal", "Exists", "Gt", "Lt"],
    ),
    (
        &[("HTTPIngressPath", "pathType")],
        &["Exact", "ImplementationSpecific", "Prefix"],
    ),
    (
        &[("EndpointSlice", "addressType")],
        &["FQDN", "IPv4", "IPv6"],
    ),
    (
        &[("PodStatus", "phase")],
        &["Failed", "Pending", "Running", "Succeeded", "Unknown"],
    ),
    (
        &[("JobSpec", "podReplacementPolicy")],
        &["Failed", "TerminatingOrFailed"],
    ),
    (
        &[
            ("Container", "terminationMessagePolicy"),
            ("EphemeralContainer", "terminationMessagePolicy"),
        ],
        &["FallbackToLogsOnError", "File"],
    ),
    (
        &[("ValidationRule", "reason")],
        &[
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ],
    ),
    (&[("HTTPGetAction", "scheme")], &["HTTP", "HTTPS"]),
    (
        &[
            ("TopologySpreadConstraint", "nodeAffinityPolicy"),
            ("TopologySpreadConstraint", "nodeTaintsPolicy"),
        ],
        &["Honor", "Ignore"],
    ),
    (
        &[("StorageClass", "volumeBindingMode")],
        &["Immediate", "WaitForFirstConsumer"],
    ),
    (
        &[("PodFailurePolicyOnExitCodesRequirement", "operator")],
        &["In", "NotIn"],
    ),
    (
        &[("ModifyVolumeStatus", "status")],
        &["InProgress", "Infeasible", "Pending"],
    ),
    (&[("JobSpec", "completionMode")], &["Indexed", "NonIndexed"]),
    (
        &[("AppArmorProfile", "type"), ("SeccompProfile", "type")],
        &["Localhost", "RuntimeDefault", "Unconfined"],
    ),
    (
        &[("PodSecurityContext", "supplementalGroupsPolicy")],
        &["Merge", "Strict"],
    ),
    (
        &[
            ("PodSpec", "preemptionPolicy"),
            ("PriorityClass", "preemptionPolicy"),
        ],
        &["Never", "PreemptLowerPriority"],
    ),
    (
        &[("Taint", "effect"), ("Toleration", "effect")],
        &["NoExecute", "NoSchedule", "PreferNoSchedule"],
    ),
    (
        &[("AzureDiskVolumeSource", "cachingMode")],
        &["None", "ReadOnly", "ReadWrite"],
    ),
    (
        &[
            ("DaemonSetUpdateStrategy", "type"),
            ("StatefulSetUpdateStrategy", "type"),
        ],
        &["OnDelete", "RollingUpdate"],
    ),
    (
        &[("StatefulSetSpec", "podManagementPolicy")],
        &["OrderedReady", "Parallel"],
    ),
    (
        &[("NodeStatus", "phase")],
        &["Pending", "Running", "Terminated"],
    ),
    (
        &[("ServiceSpec", "ipFamilyPolicy")],
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    ),
    (
        &[
            ("PersistentVolumeClaimSpec", "accessModes/*"),
            ("PersistentVolumeClaimStatus", "accessModes/*"),
            ("PersistentVolumeSpec", "accessModes/*"),
        ],
        &[
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOnce",
            "ReadWriteOncePod",
        ],
    ),
    (
        &[("DeploymentStrategy", "type")],
        &["Recreate", "RollingUpdate"],
    ),
    (
        &[
            ("ContainerPort", "protocol"),
            ("EndpointPort", "protocol"),
            ("PortStatus", "protocol"),
            ("ServicePort", "protocol"),
            ("EndpointPort", "protocol"),
            ("IngressPortStatus", "protocol"),
            ("NetworkPolicyPort", "protocol"),
        ],
        &["SCTP", "TCP", "UDP"],
    ),
];

/// Definitions whose `name` may be missing, for old clients.
const NAMELESS: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// A definition by name, `io.k8s.api.apps.v1.Deployment`.
pub(crate) fn definition(name: &str) -> Option<Value> {
    let mut schema = builtin::definitions().get(name)?.clone();
    let short = name.rsplit('.').next().unwrap_or(name);
    match name {
        "io.k8s.api.core.v1.Event" => {}
        "io.k8s.api.events.v1.Event" => schema["required"] = json!(["eventTime"]),
        _ => optional(&mut schema, "metadata"),
    }
    if short == "JSON"
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("type");
    }
    if NAMELESS.contains(&short) {
        optional(&mut schema, "name");
    }
    extend(&mut schema, merge_keys::extensions(name, ""));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        extend(property, merge_keys::extensions(name, field));
    }
    for (places, values) in VALUES {
        for (_, path) in places.iter().filter(|(owner, _)| *owner == short) {
            if let Some(place) = below(&mut schema, path) {
                place["enum"] = json!(values);
            }
        }
    }
    for (owner, path) in [
        ("ContainerStatus", "stopSignal"),
        ("Lifecycle", "stopSignal"),
    ] {
        if owner == short
            && let Some(place) = below(&mut schema, path)
        {
            place["enum"] = json!(signals());
        }
    }
    Some(schema)
}

/// The signals of Linux by name.
fn signals() -> Vec<String> {
    const NAMES: &str = "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN \
                         SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ";
    let named = NAMES.split_whitespace().map(|name| format!("SIG{name}"));
    let first = (1..=15).map(|number| format!("SIGRTMIN+{number}"));
    let last = (1..=14).map(|number| format!("SIGRTMAX-{number}"));
    let mut all: Vec<String> = named.chain(first).chain(last).collect();
    all.sort();
    all
}

fn optional(schema: &mut Value, field: &str) {
    let Some(required) = schema["required"].as_array_mut() else {
        return;
    };
    required.retain(|name| name != field);
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
}

fn extend(schema: &mut Value, extensions: Vec<(&'static str, Value)>) {
    if let Some(schema) = schema.as_object_mut() {
        for (name, value) in extensions {
            schema.insert(name.to_owned(), value);
        }
    }
}

/// The schema of a field, or with `/*` that of its items or values.
fn below<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let (field, inner) = match path.strip_suffix("/*") {
        Some(field) => (field, true),
        None => (path, false),
    };
    let field = schema.get_mut("properties")?.get_mut(field)?;
    if !inner {
        return Some(field);
    }
    let key = if field.get("items").is_some() {
        "items"
    } else {
        "additionalProperties"
    };
    field.get_mut(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_about_a_field_that_there_is() {
        for (places, _) in VALUES {
            for (owner, path) in *places {
                let suffix = format!(".{owner}");
                let mut names = builtin::definitions().keys();
                let found = names.any(|name| {
                    name.ends_with(&suffix)
                        && below(&mut builtin::definitions()[name].clone(), path).is_some()
                });
                assert!(found, "{owner} {path}");
            }
        }
    }

    #[test]
    fn what_merges_is_told() {
        let spec = definition("io.k8s.api.core.v1.PodSpec").unwrap();
        let containers = &spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(spec["properties"]["restartPolicy"]["enum"][0], "Always");
        let map = definition("io.k8s.api.core.v1.ConfigMap").unwrap();
        assert_eq!(map["required"], Value::Null);
    }
}
