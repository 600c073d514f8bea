//! The tables of columns: group and plurals, and the columns after the name.

use serde_json::{Value, json};

use super::cell::Cell::{By, Field, Integer, Or, True};
use super::cell::{AGE, CREATED_AT, count, int, joined, labels_or_none, number, selector, string};
use super::cell::{text, typed, wide};
use super::{namespaces, network, nodes, policy, workloads};
use crate::table::{BuiltinColumn, since};

const CONTAINERS: BuiltinColumn = wide("Containers", By(workloads::containers));
const IMAGES: BuiltinColumn = wide("Images", By(workloads::images));
const SELECTOR: BuiltinColumn = wide("Selector", By(|o| json!(selector(&o["spec"]["selector"]))));
const VOLUME_CLASS: BuiltinColumn = text(
    "VolumeAttributesClass",
    Or("spec.volumeAttributesClassName", "<unset>"),
);
const VOLUME_MODE: BuiltinColumn = wide("VolumeMode", Or("spec.volumeMode", "<unset>"));

const REPLICA_SET: &[BuiltinColumn] = &[
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The columns of each kind.
pub(super) const KINDS: &[(&str, &str, &[BuiltinColumn])] = &[
    (
        "",
        "namespaces",
        &[text("Status", Field("status.phase")), AGE],
    ),
    ("", "configmaps", &[text("Data", By(namespaces::data)), AGE]),
    (
        "",
        "secrets",
        &[
            text("Type", Field("type")),
            text("Data", By(|o| count(&o["data"]))),
            AGE,
        ],
    ),
    ("", "events", EVENT),
    ("events.k8s.io", "events", EVENT),
    (
        "",
        "resourcequotas",
        &[
            text("Request", By(namespaces::quota)),
            text("Limit", Or("", "")),
            AGE,
        ],
    ),
    ("", "limitranges", &[CREATED_AT]),
    (
        "",
        "pods",
        &[
            text("Ready", By(nodes::ready_containers)),
            text("Status", By(nodes::pod_status)),
            text("Restarts", By(nodes::restarts)),
            AGE,
            wide("IP", Or("status.podIP", "<none>")),
            wide("Node", Or("spec.nodeName", "<none>")),
            wide("Nominated Node", Or("status.nominatedNodeName", "<none>")),
            wide("Readiness Gates", Or("", "<none>")),
        ],
    ),
    (
        "",
        "podtemplates",
        &[
            text("Containers", By(|o| nodes::of_containers(o, "name"))),
            text("Images", By(|o| nodes::of_containers(o, "image"))),
            text(
                "Pod Labels",
                By(|o| labels_or_none(&o["template"]["metadata"]["labels"])),
            ),
        ],
    ),
    (
        "",
        "nodes",
        &[
            text("Status", By(nodes::node_status)),
            text("Roles", By(nodes::node_roles)),
            AGE,
            text("Version", Field("status.nodeInfo.kubeletVersion")),
            wide("Internal-IP", By(|o| nodes::node_address(o, "InternalIP"))),
            wide("External-IP", By(|o| nodes::node_address(o, "ExternalIP"))),
            wide("OS-Image", Or("status.nodeInfo.osImage", "<unknown>")),
            wide(
                "Kernel-Version",
                Or("status.nodeInfo.kernelVersion", "<unknown>"),
            ),
            wide(
                "Container-Runtime",
                Or("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
            ),
        ],
    ),
    (
        "",
        "persistentvolumes",
        &[
            text("Capacity", Field("spec.capacity.storage")),
            text(
                "Access Modes",
                By(|o| joined(&o["spec"]["accessModes"], string, "")),
            ),
            text(
                "Reclaim Policy",
                Field("spec.persistentVolumeReclaimPolicy"),
            ),
            text("Status", Field("status.phase")),
            text("Claim", By(claim_of)),
            text("StorageClass", Or("spec.storageClassName", "")),
            VOLUME_CLASS,
            text("Reason", Or("status.reason", "")),
            AGE,
            VOLUME_MODE,
        ],
    ),
    (
        "",
        "persistentvolumeclaims",
        &[
            text("Status", Field("status.phase")),
            text("Volume", Or("spec.volumeName", "")),
            text("Capacity", Or("status.capacity.storage", "")),
            text(
                "Access Modes",
                By(|o| joined(&o["status"]["accessModes"], string, "")),
            ),
            text("StorageClass", Or("spec.storageClassName", "")),
            VOLUME_CLASS,
            AGE,
            VOLUME_MODE,
        ],
    ),
    (
        "storage.k8s.io",
        "storageclasses",
        &[
            text("Provisioner", Field("provisioner")),
            text("ReclaimPolicy", Or("reclaimPolicy", "Delete")),
            text("VolumeBindingMode", Or("volumeBindingMode", "Immediate")),
            text("AllowVolumeExpansion", True("allowVolumeExpansion")),
            AGE,
        ],
    ),
    ("", "replicationcontrollers", REPLICA_SET),
    ("apps", "replicasets", REPLICA_SET),
    (
        "apps",
        "deployments",
        &[
            text("Ready", By(workloads::ready)),
            text("Up-to-date", Integer("status.updatedReplicas")),
            text("Available", Integer("status.availableReplicas")),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps",
        "statefulsets",
        &[text("Ready", By(workloads::ready)), AGE, CONTAINERS, IMAGES],
    ),
    (
        "apps",
        "daemonsets",
        &[
            number("Desired", "status.desiredNumberScheduled"),
            number("Current", "status.currentNumberScheduled"),
            number("Ready", "status.numberReady"),
            number("Up-to-date", "status.updatedNumberScheduled"),
            number("Available", "status.numberAvailable"),
            text("Node Selector", By(workloads::node_selector)),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps",
        "controllerrevisions",
        &[
            text("Controller", By(workloads::controller)),
            text("Revision", Field("revision")),
            AGE,
        ],
    ),
    (
        "batch",
        "jobs",
        &[
            text("Status", By(workloads::job_status)),
            text("Completions", By(workloads::job_completions)),
            text("Duration", By(workloads::job_duration)),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "batch",
        "cronjobs",
        &[
            text("Schedule", Field("spec.schedule")),
            text("Timezone", Or("spec.timeZone", "<none>")),
            typed("Suspend", "boolean", By(workloads::suspended)),
            typed("Active", "integer", By(|o| count(&o["status"]["active"]))),
            text("Last Schedule", By(workloads::last_schedule)),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        &[
            text(
                "Reference",
                By(|o| policy::reference(&o["spec"]["scaleTargetRef"])),
            ),
            text("Targets", By(workloads::hpa_targets)),
            text("MinPods", By(workloads::hpa_minimum)),
            text("MaxPods", Field("spec.maxReplicas")),
            text("Replicas", Integer("status.currentReplicas")),
            AGE,
        ],
    ),
    (
        "",
        "services",
        &[
            text("Type", Field("spec.type")),
            text("Cluster-IP", Or("spec.clusterIP", "<none>")),
            text("External-IP", By(network::external_ip)),
            text("Port(s)", By(network::service_ports)),
            AGE,
            wide("Selector", By(|o| labels_or_none(&o["spec"]["selector"]))),
        ],
    ),
    (
        "",
        "endpoints",
        &[text("Endpoints", By(network::endpoints)), AGE],
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        &[
            text("AddressType", Field("addressType")),
            text("Ports", By(network::slice_ports)),
            text("Endpoints", By(network::slice_endpoints)),
            AGE,
        ],
    ),
    (
        "networking.k8s.io",
        "ingresses",
        &[
            text("Class", Or("spec.ingressClassName", "<none>")),
            text("Hosts", By(network::ingress_hosts)),
            text("Address", By(|o| network::balancer_addresses(o, ""))),
            text("Ports", By(network::ingress_ports)),
            AGE,
        ],
    ),
    (
        "networking.k8s.io",
        "ingressclasses",
        &[
            text("Controller", Field("spec.controller")),
            text("Parameters", Or("spec.parameters.name", "<none>")),
            AGE,
        ],
    ),
    (
        "networking.k8s.io",
        "networkpolicies",
        &[
            text(
                "Pod-Selector",
                By(|o| json!(selector(&o["spec"]["podSelector"]))),
            ),
            AGE,
        ],
    ),
    (
        "policy",
        "poddisruptionbudgets",
        &[
            text(
                "Min Available",
                By(|o| policy::share(&o["spec"]["minAvailable"])),
            ),
            text(
                "Max Unavailable",
                By(|o| policy::share(&o["spec"]["maxUnavailable"])),
            ),
            number("Allowed Disruptions", "status.disruptionsAllowed"),
            AGE,
        ],
    ),
    (
        "rbac.authorization.k8s.io",
        "roles|clusterroles",
        &[CREATED_AT],
    ),
    (
        "rbac.authorization.k8s.io",
        "rolebindings|clusterrolebindings",
        &[
            text("Role", By(|o| policy::reference(&o["roleRef"]))),
            AGE,
            wide("Users", By(|o| policy::subjects(o, "User"))),
            wide("Groups", By(|o| policy::subjects(o, "Group"))),
            wide(
                "ServiceAccounts",
                By(|o| policy::subjects(o, "ServiceAccount")),
            ),
        ],
    ),
    (
        "coordination.k8s.io",
        "leases",
        &[text("Holder", Or("spec.holderIdentity", "")), AGE],
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        &[
            typed("Value", "integer", Field("value")),
            typed("Global-Default", "boolean", True("globalDefault")),
            AGE,
            text(
                "PreemptionPolicy",
                Or("preemptionPolicy", "PreemptLowerPriority"),
            ),
        ],
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations|validatingwebhookconfigurations",
        &[
            typed("Webhooks", "integer", By(|o| count(&o["webhooks"]))),
            AGE,
        ],
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &[CREATED_AT],
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        &[
            AGE,
            text("SignerName", Or("spec.signerName", "<none>")),
            text("Requestor", Or("spec.username", "")),
            text("RequestedDuration", By(policy::requested_duration)),
            text("Condition", By(policy::request_state)),
        ],
    ),
];

const EVENT: &[BuiltinColumn] = &[
    text("Last Seen", By(namespaces::event_last_seen)),
    text("Type", Field("type")),
    text("Reason", Field("reason")),
    text("Object", By(namespaces::event_object)),
    wide("Subobject", Or("involvedObject.fieldPath", "")),
    wide("Source", By(namespaces::event_source)),
    text("Message", By(|o| json!(string(&o["message"]).trim()))),
    wide("First Seen", By(first_seen)),
    wide("Count", By(|o| json!(int(&o["count"]).max(1).to_string()))),
    wide("Name", Field("metadata.name")),
];

fn first_seen(event: &Value) -> Value {
    let first = &event["firstTimestamp"];
    since(if first.is_string() {
        first
    } else {
        &event["eventTime"]
    })
}

fn claim_of(volume: &Value) -> Value {
    let claim = &volume["spec"]["claimRef"];
    json!(match claim["name"].as_str() {
        Some(name) => format!("{}/{name}", string(&claim["namespace"])),
        None => String::new(),
    })
}
