//! ReplicationControllers, the predecessors of ReplicaSets. Their behaviour is the same as that of ReplicaSets.

use k8s_openapi::api::core::v1::{ReplicationController, ReplicationControllerStatus};

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
    for controller in cache.replication_controllers.iter() {
        if controller.metadata.deletion_timestamp.is_none() && scope.covers(&controller.metadata) {
            plan_controller(controller, pods, now, actions);
        }
    }
}

fn plan_controller(
    controller: &ReplicationController,
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
    let status = ReplicationControllerStatus {
        replicas: owned_pods::number(count.existing),
        fully_labeled_replicas: owned_pods::nonzero(count.existing),
        ready_replicas: owned_pods::nonzero(count.ready),
        available_replicas: owned_pods::nonzero(count.ready),
        observed_generation: controller.metadata.generation,
        ..ReplicationControllerStatus::default()
    };
    if controller.status.as_ref() != Some(&status) {
        let mut controller = controller.clone();
        controller.status = Some(status);
        actions.push(Action::ReplicationControllerStatus(Box::new(controller)));
    }
}
