//! ReplicaSets: they keep `spec.replicas` pods, with the functions of `replicas`, and count the pods in their status.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};

use crate::action::Action;
use crate::cache::Cache;
use crate::owned_pods::{self, Pods};
use crate::replicas::{DesiredReplicas, manage_replicas};
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
    let wanted = DesiredReplicas {
        template: spec.and_then(|spec| spec.template.as_ref()),
        replicas: spec.and_then(|spec| spec.replicas),
    };
    let count = manage_replicas(set, &wanted, pods, now, actions);
    let status = ReplicaSetStatus {
        replicas: owned_pods::number(count.existing),
        fully_labeled_replicas: owned_pods::nonzero(count.existing),
        ready_replicas: owned_pods::nonzero(count.ready),
        available_replicas: owned_pods::nonzero(count.ready),
        observed_generation: set.metadata.generation,
        ..ReplicaSetStatus::default()
    };
    if set.status.as_ref() != Some(&status) {
        let mut set = set.clone();
        set.status = Some(status);
        actions.push(Action::ReplicaSetStatus(Box::new(set)));
    }
}
