//! DaemonSets: one pod for each node that the pod template selects.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::owned_pods::{self, Pods};
use crate::plan::Plan;
use crate::pod_scheduler;
use crate::pod_template;
use crate::scope::Scope;

const REVISION: &str = "controller-revision-hash";
const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) fn plan(cache: &Cache, scope: &Scope, pods: &Pods<'_>, plan: &mut Plan) {
    let of_scope = |set: &&DaemonSet| scope.covers(&set.metadata);
    for set in cache.daemon_sets.iter().filter(of_scope) {
        if let (Some(spec), None) = (&set.spec, &set.metadata.deletion_timestamp) {
            plan_set(set, spec, cache, pods, plan.of(&set.metadata));
        }
    }
}

fn plan_set(
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    cache: &Cache,
    pods: &Pods<'_>,
    actions: &mut Vec<Action>,
) {
    let revision = pod_template::short_name(&spec.template, "", 10);
    let all = pods.controlled_by(set);
    let mut by_name: BTreeMap<String, &Pod> =
        all.iter().map(|pod| (pod.name_any(), *pod)).collect();
    let selected = |node: &&Node| {
        let pod = spec.template.spec.as_ref();
        pod.is_none_or(|pod| {
            pod_scheduler::selects(pod, node) && pod_scheduler::daemon_pod_tolerates(pod, node)
        })
    };
    let (mut desired, mut ready, mut scheduled, mut updated) = (0, 0, 0, 0);
    let undisturbed = all.iter().all(|pod| owned_pods::is_ready(pod));
    let mut replaced = false;
    for node in cache.nodes.iter().filter(selected) {
        desired += 1;
        let suffix = pod_template::short_name(&node.name_any(), "", 5);
        let name = format!("{}-{suffix}", set.name_any());
        let Some(pod) = by_name.remove(&name) else {
            let pod = pod(set, spec, &revision, name, node);
            actions.push(Action::CreatePod(Box::new(pod)));
            continue;
        };
        scheduled += 1;
        ready += usize::from(owned_pods::is_ready(pod));
        let is_updated = pod.labels().get(REVISION) == Some(&revision);
        updated += usize::from(is_updated);
        let outdated = !is_updated && !replaced && (undisturbed || !owned_pods::is_ready(pod));
        if outdated || owned_pods::is_finished(pod) {
            replaced = true;
            actions.push(Action::DeletePod(key(pod)));
        }
    }
    for pod in by_name.values() {
        actions.push(Action::DeletePod(key(*pod)));
    }
    let status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        desired_number_scheduled: owned_pods::number(desired),
        current_number_scheduled: owned_pods::number(scheduled),
        number_misscheduled: owned_pods::number(by_name.len()),
        number_ready: owned_pods::number(ready),
        number_available: owned_pods::nonzero(ready),
        number_unavailable: owned_pods::nonzero(desired - ready.min(desired)),
        updated_number_scheduled: owned_pods::nonzero(updated),
        ..DaemonSetStatus::default()
    };
    if set.status.as_ref() != Some(&status) {
        let mut set = set.clone();
        set.status = Some(status);
        actions.push(Action::DaemonSetStatus(Box::new(set)));
    }
}

/// Returns the pod for one node.
fn pod(set: &DaemonSet, spec: &DaemonSetSpec, revision: &str, name: String, node: &Node) -> Pod {
    let namespace = set.metadata.namespace.as_ref();
    let mut pod = pod_template::pod(
        &spec.template,
        namespace,
        name,
        owned_pods::owner_references(set),
    );
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION.to_owned(), revision.to_owned());
    if let Some(pod) = &mut pod.spec {
        let selector = pod.node_selector.get_or_insert_default();
        let hostname = node.labels().get(HOSTNAME).cloned();
        selector.insert(
            HOSTNAME.to_owned(),
            hostname.unwrap_or_else(|| node.name_any()),
        );
    }
    pod
}
