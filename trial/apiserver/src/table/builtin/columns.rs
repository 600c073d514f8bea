//! The list of the columns of each built-in kind, with the [`Cell`] of each column, and the short functions of such
//! cells.

use serde_json::{Value, json};

use super::cell::Cell::{self, By, Field, Integer, Or, True};
use super::cell::{count, int, joined, labels_or_none, selector, string};
use super::{network, other_kinds, pods_and_nodes, workloads};
use crate::table::{BuiltinColumn, age, since};

const EVENT: &str = "Last Seen=@last_seen; Type=type; Reason=reason; Object=@event_object; \
    *Subobject=involvedObject.fieldPath|; *Source=@event_source; Message=@message; *First Seen=@first_seen; \
    *Count=@event_count; *Name=metadata.name";
const REPLICA_SET: &str = "Desired:integer=#spec.replicas; Current:integer=#status.replicas; \
    Ready:integer=#status.readyReplicas; Age; *Containers; *Images; *Selector";
const CREATED_AT: &str = "Created At:date=metadata.creationTimestamp";

/// The group and plural of each kind, and its columns after the name, separated by `;`. Alternative plurals are
/// separated by `|`.
///
/// A column is `NAME:TYPE=CELL`. A `*` before the name marks a column that only `-o wide` prints. The default type is
/// `string`. Without a cell, the function with the name of the column computes the cell. A cell is one of
///
/// | cell | content |
/// |---|---|
/// | `path` | the value at a dotted path |
/// | `path\|text` | the text at the path. If it is absent or empty, the text after the bar |
/// | `#path` | the number at the path, or zero |
/// | `?path` | true if the value at the path is true |
/// | `@function` | the result of a function |
const KINDS: &[(&str, &str, &str)] = &[
    ("", "namespaces", "Status=status.phase; Age"),
    ("", "configmaps", "Data=@map_data; Age"),
    ("", "secrets", "Type=type; Data=@secret_data; Age"),
    ("", "events", EVENT),
    ("events.k8s.io", "events", EVENT),
    ("", "resourcequotas", "Request=@quota; Limit=|; Age"),
    ("", "limitranges", CREATED_AT),
    (
        "",
        "pods",
        "Ready=@ready_containers; Status=@pod_status; Restarts=@restarts; Age; *IP=status.podIP|<none>; \
         *Node=spec.nodeName|<none>; *Nominated Node=status.nominatedNodeName|<none>; *Readiness Gates=|<none>",
    ),
    (
        "",
        "podtemplates",
        "Containers=@template_containers; Images=@template_images; Pod Labels=@template_labels",
    ),
    (
        "",
        "nodes",
        "Status=@node_status; Roles=@node_roles; Age; Version=status.nodeInfo.kubeletVersion; \
         *Internal-IP=@internal_ip; *External-IP=@external_node_ip; *OS-Image=status.nodeInfo.osImage|<unknown>; \
         *Kernel-Version=status.nodeInfo.kernelVersion|<unknown>; \
         *Container-Runtime=status.nodeInfo.containerRuntimeVersion|<unknown>",
    ),
    (
        "",
        "persistentvolumes",
        "Capacity=spec.capacity.storage; Access Modes=@volume_modes; \
         Reclaim Policy=spec.persistentVolumeReclaimPolicy; Status=status.phase; Claim=@claim_of; \
         StorageClass=spec.storageClassName|; VolumeAttributesClass=spec.volumeAttributesClassName|<unset>; \
         Reason=status.reason|; Age; *VolumeMode=spec.volumeMode|<unset>",
    ),
    (
        "",
        "persistentvolumeclaims",
        "Status=status.phase; Volume=spec.volumeName|; Capacity=status.capacity.storage|; \
         Access Modes=@claim_modes; StorageClass=spec.storageClassName|; \
         VolumeAttributesClass=spec.volumeAttributesClassName|<unset>; Age; *VolumeMode=spec.volumeMode|<unset>",
    ),
    (
        "storage.k8s.io",
        "storageclasses",
        "Provisioner=provisioner; ReclaimPolicy=reclaimPolicy|Delete; \
         VolumeBindingMode=volumeBindingMode|Immediate; AllowVolumeExpansion=?allowVolumeExpansion; Age",
    ),
    ("", "replicationcontrollers", REPLICA_SET),
    ("apps", "replicasets", REPLICA_SET),
    (
        "apps",
        "deployments",
        "Ready=@ready_replicas; Up-to-date=#status.updatedReplicas; Available=#status.availableReplicas; Age; \
         *Containers; *Images; *Selector",
    ),
    (
        "apps",
        "statefulsets",
        "Ready=@ready_replicas; Age; *Containers; *Images",
    ),
    (
        "apps",
        "daemonsets",
        "Desired:integer=#status.desiredNumberScheduled; Current:integer=#status.currentNumberScheduled; \
         Ready:integer=#status.numberReady; Up-to-date:integer=#status.updatedNumberScheduled; \
         Available:integer=#status.numberAvailable; Node Selector=@node_selector; Age; *Containers; *Images; *Selector",
    ),
    (
        "apps",
        "controllerrevisions",
        "Controller=@controller; Revision=revision; Age",
    ),
    (
        "batch",
        "jobs",
        "Status=@job_status; Completions=@job_completions; Duration=@job_duration; Age; *Containers; *Images; *Selector",
    ),
    (
        "batch",
        "cronjobs",
        "Schedule=spec.schedule; Timezone=spec.timeZone|<none>; Suspend:boolean=@suspended; \
         Active:integer=@active_jobs; Last Schedule=@last_schedule; Age; *Containers; *Images; *Selector",
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        "Reference=@scale_target; Targets=@hpa_targets; MinPods=@hpa_minimum; MaxPods=spec.maxReplicas; \
         Replicas=#status.currentReplicas; Age",
    ),
    (
        "",
        "services",
        "Type=spec.type; Cluster-IP=spec.clusterIP|<none>; External-IP=@external_ip; Port(s)=@service_ports; Age; \
         *Selector=@service_selector",
    ),
    ("", "endpoints", "Endpoints=@endpoints; Age"),
    (
        "discovery.k8s.io",
        "endpointslices",
        "AddressType=addressType; Ports=@slice_ports; Endpoints=@slice_endpoints; Age",
    ),
    (
        "networking.k8s.io",
        "ingresses",
        "Class=spec.ingressClassName|<none>; Hosts=@ingress_hosts; Address=@ingress_address; Ports=@ingress_ports; Age",
    ),
    (
        "networking.k8s.io",
        "ingressclasses",
        "Controller=spec.controller; Parameters=spec.parameters.name|<none>; Age",
    ),
    ("networking.k8s.io", "networkpolicies", "Pod-Selector; Age"),
    (
        "policy",
        "poddisruptionbudgets",
        "Min Available; Max Unavailable; Allowed Disruptions:integer=#status.disruptionsAllowed; Age",
    ),
    (
        "rbac.authorization.k8s.io",
        "roles|clusterroles",
        CREATED_AT,
    ),
    (
        "rbac.authorization.k8s.io",
        "rolebindings|clusterrolebindings",
        "Role; Age; *Users; *Groups; *ServiceAccounts",
    ),
    (
        "coordination.k8s.io",
        "leases",
        "Holder=spec.holderIdentity|; Age",
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "Value:integer=value; Global-Default:boolean=?globalDefault; Age; \
         PreemptionPolicy=preemptionPolicy|PreemptLowerPriority",
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations|validatingwebhookconfigurations",
        "Webhooks:integer; Age",
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        CREATED_AT,
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "Age; SignerName=spec.signerName|<none>; Requestor=spec.username|; RequestedDuration; Condition",
    ),
];

/// Returns the columns of a kind after the name. A kind that is not in the table has the column `Age`.
pub(crate) fn builtin_columns(group: &str, plural: &str) -> Vec<BuiltinColumn> {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(g, p, _)| *g == group && p.split('|').any(|p| p == plural));
    found
        .map_or("Age", |(.., columns)| columns)
        .split("; ")
        .map(column)
        .collect()
}

fn column(text: &'static str) -> BuiltinColumn {
    let (title, cell) = match text.split_once('=') {
        Some((title, cell)) => (title, Some(cell)),
        None => (text, None),
    };
    let (name, kind) = title.split_once(':').unwrap_or((title, "string"));
    let wide = name.strip_prefix('*');
    let name = wide.unwrap_or(name);
    BuiltinColumn {
        name,
        kind,
        priority: i64::from(wide.is_some()),
        cell: match cell {
            Some(cell) => self::cell(cell),
            None => By(function(name)),
        },
    }
}

fn cell(text: &'static str) -> Cell {
    match (text.split_once('|'), text.get(1..).unwrap_or_default()) {
        (Some((path, otherwise)), _) => Or(path, otherwise),
        (_, path) if text.starts_with('#') => Integer(path),
        (_, path) if text.starts_with('?') => True(path),
        (_, name) if text.starts_with('@') => By(function(name)),
        _ => Field(text),
    }
}

/// Returns the function with this name. The name may be the name of a column.
fn function(name: &str) -> fn(&Value) -> Value {
    match name {
        "Age" => age,
        "Containers" => workloads::containers,
        "Images" => workloads::images,
        "Selector" => |o| selector(&o["spec"]["selector"]),
        "Pod-Selector" => |o| selector(&o["spec"]["podSelector"]),
        "Min Available" => |o| other_kinds::share(&o["spec"]["minAvailable"]),
        "Max Unavailable" => |o| other_kinds::share(&o["spec"]["maxUnavailable"]),
        "Role" => |o| other_kinds::reference(&o["roleRef"]),
        "Users" => |o| other_kinds::subjects(o, "User"),
        "Groups" => |o| other_kinds::subjects(o, "Group"),
        "ServiceAccounts" => |o| other_kinds::subjects(o, "ServiceAccount"),
        "Webhooks" => |o| count(&o["webhooks"]),
        "RequestedDuration" => other_kinds::requested_duration,
        "Condition" => other_kinds::request_state,
        "last_seen" => other_kinds::event_last_seen,
        "event_object" => other_kinds::event_object,
        "event_source" => other_kinds::event_source,
        "message" => |o| json!(string(&o["message"]).trim()),
        "first_seen" => first_seen,
        "event_count" => |o| json!(int(&o["count"]).max(1).to_string()),
        "map_data" => other_kinds::data,
        "secret_data" => |o| count(&o["data"]),
        "quota" => other_kinds::quota,
        "ready_containers" => pods_and_nodes::ready_containers,
        "pod_status" => pods_and_nodes::pod_status,
        "restarts" => pods_and_nodes::restarts,
        "template_containers" => |o| pods_and_nodes::of_containers(o, "name"),
        "template_images" => |o| pods_and_nodes::of_containers(o, "image"),
        "template_labels" => |o| labels_or_none(&o["template"]["metadata"]["labels"]),
        "node_status" => pods_and_nodes::node_status,
        "node_roles" => pods_and_nodes::node_roles,
        "internal_ip" => |o| pods_and_nodes::node_address(o, "InternalIP"),
        "external_node_ip" => |o| pods_and_nodes::node_address(o, "ExternalIP"),
        "volume_modes" => |o| joined(&o["spec"]["accessModes"], string, ""),
        "claim_modes" => |o| joined(&o["status"]["accessModes"], string, ""),
        "claim_of" => claim_of,
        "ready_replicas" => workloads::ready,
        "node_selector" => workloads::node_selector,
        "controller" => workloads::controller,
        "job_status" => workloads::job_status,
        "job_completions" => workloads::job_completions,
        "job_duration" => workloads::job_duration,
        "suspended" => workloads::suspended,
        "active_jobs" => |o| count(&o["status"]["active"]),
        "last_schedule" => workloads::last_schedule,
        "scale_target" => |o| other_kinds::reference(&o["spec"]["scaleTargetRef"]),
        "hpa_targets" => workloads::hpa_targets,
        "hpa_minimum" => workloads::hpa_minimum,
        "external_ip" => network::external_ip,
        "service_ports" => network::service_ports,
        "service_selector" => |o| labels_or_none(&o["spec"]["selector"]),
        "endpoints" => network::endpoints,
        "slice_ports" => network::slice_ports,
        "slice_endpoints" => network::slice_endpoints,
        "ingress_hosts" => network::ingress_hosts,
        "ingress_address" => |o| network::balancer_addresses(o, ""),
        "ingress_ports" => network::ingress_ports,
        _ => unknown,
    }
}

/// Returns the cell of a column whose function does not exist.
fn unknown(_: &Value) -> Value {
    json!("<unknown function>")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_exists() {
        for (group, plurals, _) in KINDS {
            for column in builtin_columns(group, plurals.split('|').next().unwrap()) {
                let cell = column.cell.of(&json!({}));
                assert_ne!(cell, unknown(&cell), "{plurals}: {}", column.name);
            }
        }
    }
}
