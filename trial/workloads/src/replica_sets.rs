//! ReplicaSets: they keep `spec.replicas` pods, with the functions of `replicas`, and count the pods in their status.

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::action::Action;
use crate::cache::Cache;
use crate::owned_pods::{self, Pods};
use crate::plan::Plan;
use crate::replicas::{DesiredReplicas, REPLICA_FAILURE, manage_replicas};
use crate::scope::Scope;

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    plan: &mut Plan,
) {
    for set in cache.replica_sets.iter() {
        if set.metadata.deletion_timestamp.is_none() && scope.covers(&set.metadata) {
            plan_set(set, cache, pods, now, plan.of(&set.metadata));
        }
    }
}

/// Returns the desired number of pods of a ReplicaSet.
pub(crate) fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    usize::try_from(replicas.unwrap_or(1)).unwrap_or_default()
}

fn plan_set(
    set: &ReplicaSet,
    cache: &Cache,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    let spec = set.spec.as_ref();
    let wanted = DesiredReplicas {
        template: spec.and_then(|spec| spec.template.as_ref()),
        replicas: spec.and_then(|spec| spec.replicas),
    };
    let count = manage_replicas(set, &wanted, pods, now, actions);
    let refusal = cache.retries.refusal(set, actions);
    let before = set.status.as_ref().and_then(|s| s.conditions.as_ref());
    let status = ReplicaSetStatus {
        replicas: owned_pods::number(count.existing),
        fully_labeled_replicas: owned_pods::nonzero(count.existing),
        ready_replicas: owned_pods::nonzero(count.ready),
        available_replicas: owned_pods::nonzero(count.ready),
        observed_generation: set.metadata.generation,
        conditions: refusal.map(|refusal| {
            let known = before
                .into_iter()
                .flatten()
                .find(|c| c.type_ == REPLICA_FAILURE);
            vec![known.cloned().unwrap_or_else(|| ReplicaSetCondition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(refusal.reason.to_owned()),
                message: Some(refusal.message.clone()),
                last_transition_time: Some(Time(whole_seconds(now))),
            })]
        }),
        ..ReplicaSetStatus::default()
    };
    if set.status.as_ref() != Some(&status) {
        let mut set = set.clone();
        set.status = Some(status);
        actions.push(Action::ReplicaSetStatus(Box::new(set)));
    }
}
