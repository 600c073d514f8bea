//! ReplicaSets, and the creation and deletion of identical pods for all controllers with `replicas`.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::{Resource, ResourceExt as _};

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::ownership::{self, Pods};
use crate::pod_template;
use crate::scope::Scope;

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    for set in cache.replica_sets.iter() {
        if set.metadata.deletion_timestamp.is_none() && scope.covers(&set.metadata) {
            plan_set(set, pods, now, actions);
        }
    }
}

/// Returns the desired number of pods of a ReplicaSet.
pub(crate) fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    usize::try_from(replicas.unwrap_or(1)).unwrap_or_default()
}

fn plan_set(set: &ReplicaSet, pods: &Pods<'_>, now: jiff::Timestamp, actions: &mut Vec<Action>) {
    let spec = set.spec.as_ref();
    let wanted = Replicated {
        template: spec.and_then(|spec| spec.template.as_ref()),
        replicas: spec.and_then(|spec| spec.replicas),
    };
    let count = replicate(set, &wanted, pods, now, actions);
    let status = ReplicaSetStatus {
        replicas: ownership::number(count.existing),
        fully_labeled_replicas: ownership::nonzero(count.existing),
        ready_replicas: ownership::nonzero(count.ready),
        available_replicas: ownership::nonzero(count.ready),
        observed_generation: set.metadata.generation,
        ..ReplicaSetStatus::default()
    };
    if set.status.as_ref() != Some(&status) {
        let mut set = set.clone();
        set.status = Some(status);
        actions.push(Action::ReplicaSetStatus(Box::new(set)));
    }
}

/// The template and the desired number of the identical pods of a controller.
pub(crate) struct Replicated<'a> {
    pub(crate) template: Option<&'a PodTemplateSpec>,
    pub(crate) replicas: Option<i32>,
}

/// The numbers of existing and ready pods of a controller.
pub(crate) struct Count {
    pub(crate) existing: usize,
    pub(crate) ready: usize,
}

/// Creates missing pods, and deletes surplus and finished pods. Returns the numbers of pods before these actions.
pub(crate) fn replicate<K: Resource<DynamicType = ()>>(
    owner: &K,
    replicated: &Replicated<'_>,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) -> Count {
    let all = pods.controlled_by(owner);
    let (finished, mut there): (Vec<&Pod>, Vec<&Pod>) =
        all.into_iter().partition(|pod| ownership::is_finished(pod));
    let wanted = usize::try_from(replicated.replicas.unwrap_or(1)).unwrap_or_default();
    let names: BTreeSet<String> = there
        .iter()
        .chain(&finished)
        .map(|pod| pod.name_any())
        .collect();
    if let (Some(template), Some(missing)) = (replicated.template, wanted.checked_sub(there.len()))
    {
        let fresh = pod_template::fresh_names(owner.name_any(), now);
        for name in fresh.filter(|name| !names.contains(name)).take(missing) {
            let namespace = owner.meta().namespace.as_ref();
            let pod = pod_template::pod(
                template,
                namespace,
                name,
                ownership::owner_references(owner),
            );
            actions.push(Action::CreatePod(Box::new(pod)));
        }
    }
    // Pods that are not ready or not bound are deleted first. Among equal pods, the youngest are deleted first.
    let surplus = there.len().saturating_sub(wanted);
    there.reverse();
    there.sort_by_key(|pod| (ownership::is_ready(pod), ownership::node(pod).is_some()));
    for pod in there.iter().take(surplus).chain(&finished) {
        actions.push(Action::DeletePod(key(*pod)));
    }
    Count {
        existing: there.len(),
        ready: there.iter().filter(|pod| ownership::is_ready(pod)).count(),
    }
}
