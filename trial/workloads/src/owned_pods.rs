//! [`Pods`]: the pods of each controller. Also owner references, and functions for the state of a pod.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// Returns the owner reference to the controller of an object.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .find(|owner| owner.controller == Some(true))
}

/// Returns the owner references for an object that a controller creates.
pub(crate) fn owner_references<K: Resource<DynamicType = ()>>(
    owner: &K,
) -> Option<Vec<OwnerReference>> {
    Some(vec![owner.controller_owner_ref(&())?])
}

/// Maximum number of pods that one planning creates, as in Kubernetes' controllers. The desired state is read again
/// before the next ones.
pub(crate) const MAX_BURST: usize = 500;
/// Maximum number of pods of a simulated cluster. Each pod takes memory of the process.
pub(crate) const MAX_PODS: usize = 10_000;

/// Pods by the UID of their controller, the oldest first. Also the number of pods that one planning may create.
#[derive(Debug, Default)]
pub(crate) struct Pods<'a> {
    by_controller: HashMap<&'a str, Vec<&'a Pod>>,
    /// Number of pods until the burst ends, and until the cluster is full.
    left: Cell<(usize, usize)>,
    refused: RefCell<Vec<ObjectReference>>,
    /// UIDs of the controllers that wait for the end of the burst of other controllers.
    deferred: RefCell<Vec<String>>,
}

impl<'a> Pods<'a> {
    /// Groups the pods by controller. Includes only controllers with a UID that `contains` accepts.
    pub(crate) fn of(all: impl Iterator<Item = &'a Pod>, contains: impl Fn(&str) -> bool) -> Self {
        let mut pods: HashMap<&str, Vec<&Pod>> = HashMap::new();
        let mut existing = 0;
        for pod in all {
            existing += 1;
            if let Some(owner) = controller_of(&pod.metadata)
                && contains(&owner.uid)
            {
                pods.entry(&owner.uid).or_default().push(pod);
            }
        }
        for list in pods.values_mut() {
            list.sort_by(|a, b| age(a).cmp(&age(b)));
        }
        Self {
            by_controller: pods,
            left: Cell::new((MAX_BURST, MAX_PODS.saturating_sub(existing))),
            refused: RefCell::default(),
            deferred: RefCell::default(),
        }
    }

    /// Returns how many of the missing pods a controller may create now, and records the controller if the cluster is
    /// full.
    pub(crate) fn claim<K: Resource<DynamicType = ()>>(&self, owner: &K, missing: usize) -> usize {
        let (burst, capacity) = self.left.get();
        let allowed = missing.min(burst).min(capacity);
        self.left.set((burst - allowed, capacity - allowed));
        if allowed < missing && capacity == allowed {
            self.refused.borrow_mut().push(owner.object_ref(&()));
        } else if allowed < missing {
            let uid = owner.meta().uid.clone().unwrap_or_default();
            self.deferred.borrow_mut().push(uid);
        }
        allowed
    }

    /// Returns the controllers that may not create their missing pods, because the cluster is full, and the UIDs of the
    /// controllers that create further pods in the next burst.
    pub(crate) fn into_limited(self) -> (Vec<ObjectReference>, Vec<String>) {
        (self.refused.into_inner(), self.deferred.into_inner())
    }

    /// Returns the pods of a controller, except the pods that are being deleted.
    pub(crate) fn controlled_by<K: Resource>(&self, owner: &K) -> Vec<&'a Pod> {
        let uid = owner.meta().uid.as_deref().unwrap_or_default();
        let pods = self.by_controller.get(uid).into_iter().flatten();
        pods.copied()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect()
    }
}

fn age(pod: &Pod) -> (Option<jiff::Timestamp>, Option<&str>) {
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, pod.metadata.name.as_deref())
}

/// Reports whether the Ready condition of a pod is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the phase of a pod.
pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|s| s.phase.as_deref()).unwrap_or("Pending")
}

/// Reports whether a pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns the name of the node to which a pod is bound.
pub(crate) fn node(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!node.is_empty()).then_some(node)
}

/// Converts a number of pods to the type of a status field.
pub(crate) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Converts a number of pods to the type of a status field that omits zero.
pub(crate) fn nonzero(count: usize) -> Option<i32> {
    (count > 0).then(|| number(count))
}
