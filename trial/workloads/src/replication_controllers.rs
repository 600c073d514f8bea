//! ReplicationControllers, the predecessors of ReplicaSets. Their behaviour is the same as that of ReplicaSets.

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
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
    for controller in cache.replication_controllers.iter() {
        if controller.metadata.deletion_timestamp.is_none() && scope.covers(&controller.metadata) {
            plan_controller(controller, cache, pods, now, plan.of(&controller.metadata));
        }
    }
}

fn plan_controller(
    controller: &ReplicationController,
    cache: &Cache,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    let spec = controller.spec.as_ref();
    let desired = DesiredReplicas {
        template: spec.and_then(|spec| spec.template.as_ref()),
        replicas: spec.and_then(|spec| spec.replicas),
    };
    let count = manage_replicas(controller, &desired, pods, now, actions);
    let refusal = cache.retries.refusal(controller, actions);
    let before = controller
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_ref());
    let status = ReplicationControllerStatus {
        replicas: owned_pods::number(count.existing),
        fully_labeled_replicas: owned_pods::nonzero(count.existing),
        ready_replicas: owned_pods::nonzero(count.ready),
        available_replicas: owned_pods::nonzero(count.ready),
        observed_generation: controller.metadata.generation,
        conditions: refusal.map(|refusal| {
            let known = before
                .into_iter()
                .flatten()
                .find(|c| c.type_ == REPLICA_FAILURE);
            vec![
                known
                    .cloned()
                    .unwrap_or_else(|| ReplicationControllerCondition {
                        type_: REPLICA_FAILURE.to_owned(),
                        status: "True".to_owned(),
                        reason: Some(refusal.reason.to_owned()),
                        message: Some(refusal.message.clone()),
                        last_transition_time: Some(Time(whole_seconds(now))),
                    }),
            ]
        }),
    };
    if controller.status.as_ref() != Some(&status) {
        let mut controller = controller.clone();
        controller.status = Some(status);
        actions.push(Action::ReplicationControllerStatus(Box::new(controller)));
    }
}
