//! The creation and deletion of identical pods, for ReplicaSets and ReplicationControllers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::{Resource, ResourceExt as _};

use crate::action::Action;
use crate::cache::key;
use crate::owned_pods::{self, Pods};
use crate::pod_template;

/// The condition of a controller whose pods cannot be created or deleted.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The template and the desired number of the identical pods of a controller.
pub(crate) struct DesiredReplicas<'a> {
    pub(crate) template: Option<&'a PodTemplateSpec>,
    pub(crate) replicas: Option<i32>,
}

/// The numbers of existing and ready pods of a controller, without finished pods.
pub(crate) struct ReplicaCount {
    pub(crate) existing: usize,
    pub(crate) ready: usize,
}

/// Creates missing pods, and deletes surplus and finished pods. Returns the numbers of pods before these actions.
pub(crate) fn manage_replicas<K: Resource<DynamicType = ()>>(
    owner: &K,
    desired: &DesiredReplicas<'_>,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) -> ReplicaCount {
    let all = pods.controlled_by(owner);
    let (finished, mut existing): (Vec<&Pod>, Vec<&Pod>) = all
        .into_iter()
        .partition(|pod| owned_pods::is_finished(pod));
    let wanted = usize::try_from(desired.replicas.unwrap_or(1)).unwrap_or_default();
    let mut names: BTreeSet<String> = existing
        .iter()
        .chain(&finished)
        .map(|pod| pod.name_any())
        .collect();
    if let (Some(template), Some(missing)) = (desired.template, wanted.checked_sub(existing.len()))
    {
        let fresh = pod_template::fresh_names(owner.name_any(), now);
        let fresh = fresh.filter(|name| names.insert(name.clone()));
        for name in fresh.take(pods.claim(owner, missing)) {
            let namespace = owner.meta().namespace.as_ref();
            let pod = pod_template::pod(
                template,
                namespace,
                name,
                owned_pods::owner_references(owner),
            );
            actions.push(Action::CreatePod(Box::new(pod)));
        }
    }
    // Pods that are not ready or not bound are deleted first. Among equal pods, the youngest are deleted first.
    let surplus = existing.len().saturating_sub(wanted);
    existing.reverse();
    existing.sort_by_key(|pod| (owned_pods::is_ready(pod), owned_pods::node(pod).is_some()));
    for pod in existing.iter().take(surplus).chain(&finished) {
        actions.push(Action::DeletePod(key(*pod)));
    }
    ReplicaCount {
        existing: existing.len(),
        ready: existing
            .iter()
            .filter(|pod| owned_pods::is_ready(pod))
            .count(),
    }
}
