//! The pod scheduler, which binds each pod to a node. The node must match the node selector, have no untolerated taint
//! and have enough capacity. Except for DaemonSet pods, it must also be ready and not cordoned. The scheduler chooses
//! the suitable node with the fewest pods. Affinities, spreading, priorities and volumes are ignored.

use std::collections::{BTreeMap, HashMap};

use berth_api::pod_requests::{self, Amounts};
use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodSpec, PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::owned_pods;
use crate::plan::Plan;

/// Reports whether the node has the labels that the pod selects.
pub(crate) fn selects(pod: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let mut selector = pod.node_selector.iter().flatten();
    selector.all(|(key, value)| labels.get(key) == Some(value))
}

/// Reports whether the pod tolerates the taints of the node.
fn tolerates(pod: &PodSpec, node: &Node) -> bool {
    taints(node).all(|taint| is_tolerated(pod, taint))
}

/// Reports whether a pod of a DaemonSet tolerates the taints of the node. DaemonSet pods tolerate the taints of
/// unhealthy and cordoned nodes.
pub(crate) fn daemon_pod_tolerates(pod: &PodSpec, node: &Node) -> bool {
    let own = |taint: &&Taint| !taint.key.starts_with("node.kubernetes.io/");
    taints(node)
        .filter(own)
        .all(|taint| is_tolerated(pod, taint))
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref());
    taints
        .flatten()
        .filter(|taint| taint.effect != "PreferNoSchedule")
}

fn is_tolerated(pod: &PodSpec, taint: &Taint) -> bool {
    pod.tolerations.iter().flatten().any(|toleration| {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let (key, effect) = (of(&toleration.key), of(&toleration.effect));
        let exists = toleration.operator.as_deref() == Some("Exists");
        (effect.is_empty() || effect == taint.effect)
            && ((key.is_empty() && exists) || key == taint.key)
            && (exists || of(&toleration.value) == of(&taint.value))
    })
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A node and its free resources.
struct NodeCapacity<'a> {
    node: &'a Node,
    free: Amounts,
    pods: usize,
}

impl NodeCapacity<'_> {
    /// Returns a message about the first resource that is insufficient.
    fn first_shortage(&self, requests: &Amounts) -> Option<String> {
        let short = |(resource, amount): &(&String, &_)| {
            self.free.get(*resource).copied().unwrap_or_default() < **amount
        };
        requests
            .iter()
            .find(short)
            .map(|(resource, _)| match resource.as_str() {
                "pods" => "Too many pods".to_owned(),
                resource => format!("Insufficient {resource}"),
            })
    }

    fn take(&mut self, requests: &Amounts) {
        for (resource, amount) in requests {
            let free = self.free.entry(resource.clone()).or_default();
            *free = *free - *amount;
        }
        self.pods += 1;
    }
}

pub(crate) fn plan(cache: &Cache, now: jiff::Timestamp, plan: &mut Plan) {
    let live =
        |pod: &&Pod| pod.metadata.deletion_timestamp.is_none() && !owned_pods::is_finished(pod);
    let mut pending: Vec<&Pod> = cache
        .pods
        .iter()
        .filter(live)
        .filter(|pod| owned_pods::node(pod).is_none())
        .collect();
    if pending.is_empty() {
        return;
    }
    let mut nodes: HashMap<String, NodeCapacity<'_>> = cache
        .nodes
        .iter()
        .map(|node| {
            let status = node.status.as_ref();
            let capacity = NodeCapacity {
                node,
                free: pod_requests::amounts(status.and_then(|s| s.allocatable.as_ref())),
                pods: 0,
            };
            (node.name_any(), capacity)
        })
        .collect();
    for pod in cache.pods.iter().filter(live) {
        if let Some(capacity) = owned_pods::node(pod).and_then(|node| nodes.get_mut(node)) {
            capacity.take(&pod_requests::node_usage(pod));
        }
    }
    let mut nodes: Vec<NodeCapacity<'_>> = nodes.into_values().collect();
    nodes.sort_by_key(|capacity| capacity.node.name_any());
    // The oldest pods are scheduled first.
    pending.sort_by_key(|pod| {
        let created = pod.creation_timestamp().map(|time| time.0);
        (created, pod.name_any())
    });
    for pod in pending {
        let requests = pod_requests::node_usage(pod);
        match select_node(pod, &requests, &mut nodes) {
            Ok(node) => plan.of_scheduler().push(Action::Bind(key(pod), node)),
            Err(reasons) => plan
                .of(&pod.metadata)
                .extend(unschedulable(pod, reasons, now)),
        }
    }
}

/// Returns the suitable node with the fewest pods. If no node is suitable, returns each reason with the number of nodes
/// to which it applies.
fn select_node(
    pod: &Pod,
    requests: &Amounts,
    nodes: &mut [NodeCapacity<'_>],
) -> Result<String, BTreeMap<String, usize>> {
    let spec = pod.spec.clone().unwrap_or_default();
    let owner = owned_pods::controller_of(&pod.metadata);
    let daemon = owner.is_some_and(|owner| owner.kind == "DaemonSet");
    let mut reasons = BTreeMap::new();
    let mut best: Option<&mut NodeCapacity<'_>> = None;
    for capacity in nodes.iter_mut() {
        let node = capacity.node;
        let cordoned = node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
        let reason = if !selects(&spec, node) {
            Some("node(s) didn't match Pod's node affinity/selector".to_owned())
        } else if cordoned && !daemon {
            Some("node(s) were unschedulable".to_owned())
        } else if !is_ready(node) && !daemon {
            Some("node(s) were not ready".to_owned())
        } else if !(daemon && daemon_pod_tolerates(&spec, node) || tolerates(&spec, node)) {
            Some("node(s) had untolerated taint(s)".to_owned())
        } else {
            capacity.first_shortage(requests)
        };
        if let Some(reason) = reason {
            *reasons.entry(reason).or_default() += 1;
        } else if best.as_ref().is_none_or(|best| capacity.pods < best.pods) {
            best = Some(capacity);
        }
    }
    let capacity = best.ok_or(reasons)?;
    capacity.take(requests);
    Ok(capacity.node.name_any())
}

/// Returns an action that sets the condition PodScheduled to False, if the message of the condition has changed.
fn unschedulable(
    pod: &Pod,
    reasons: BTreeMap<String, usize>,
    now: jiff::Timestamp,
) -> Option<Action> {
    let total: usize = reasons.values().sum();
    let each: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let message = if each.is_empty() {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!("0/{total} nodes are available: {}.", each.join(", "))
    };
    let status = pod.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.clone().unwrap_or_default();
    let known = conditions.iter().position(|c| c.type_ == "PodScheduled");
    let before = known.and_then(|index| conditions.get(index));
    if before.is_some_and(|c| c.message.as_ref() == Some(&message)) {
        return None;
    }
    let now = Time(whole_seconds(now));
    let since = before.and_then(|condition| condition.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message),
        last_transition_time: since.or(Some(now)),
        ..PodCondition::default()
    });
    let mut pod = pod.clone();
    pod.status = Some(PodStatus {
        conditions: Some(conditions),
        ..status
    });
    Some(Action::PodStatus(Box::new(pod)))
}
