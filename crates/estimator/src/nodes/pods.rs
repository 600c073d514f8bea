//! The pods that use resources of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::pod_requests;

/// A pod that runs or will run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScheduledPod {
    pub(super) node: Arc<str>,
    /// The requests in the units of their resources.
    pub(super) requests: Arc<[(String, i64)]>,
    pub(super) priority: i32,
}

impl ScheduledPod {
    /// Returns `None` if the pod has ended, or has no node yet.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.as_deref().filter(|node| !node.is_empty())?;
        if has_ended(pod) {
            return None;
        }
        Some(Self {
            node: node.into(),
            requests: pod_requests::of(spec).into(),
            priority: spec.priority.unwrap_or_default(),
        })
    }
}

/// Reports whether all containers of a pod have ended.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The scheduled pods by namespace and name. Pods with equal requests share them.
#[derive(Debug, Default)]
pub(super) struct Pods {
    by_namespace: HashMap<String, HashMap<String, ScheduledPod>>,
    nodes: HashMap<Arc<str>, usize>,
    requests: HashMap<Arc<[(String, i64)]>, usize>,
}

impl Pods {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&ScheduledPod> {
        self.by_namespace.get(namespace)?.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ScheduledPod> {
        self.by_namespace.values().flat_map(HashMap::values)
    }

    pub(super) fn insert(&mut self, namespace: &str, name: &str, pod: ScheduledPod) {
        let pod = ScheduledPod {
            node: share(&mut self.nodes, pod.node),
            requests: share(&mut self.requests, pod.requests),
            priority: pod.priority,
        };
        let pods = self.by_namespace.entry(namespace.to_owned()).or_default();
        pods.insert(name.to_owned(), pod);
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<ScheduledPod> {
        let pods = self.by_namespace.get_mut(namespace)?;
        let pod = pods.remove(name)?;
        if pods.is_empty() {
            self.by_namespace.remove(namespace);
        }
        unshare(&mut self.nodes, &pod.node);
        unshare(&mut self.requests, &pod.requests);
        Some(pod)
    }

    /// Returns namespace and name of the pods that do not satisfy the condition.
    pub(super) fn keys_without(
        &self,
        is_kept: impl Fn(&str, &str) -> bool,
    ) -> Vec<(String, String)> {
        let mut keys = Vec::new();
        for (namespace, pods) in &self.by_namespace {
            let removed = pods.keys().filter(|name| !is_kept(namespace, name));
            keys.extend(removed.map(|name| (namespace.clone(), name.clone())));
        }
        keys
    }
}

/// Returns the shared copy of a value, and counts its uses.
fn share<V: ?Sized + Eq + std::hash::Hash>(
    shared: &mut HashMap<Arc<V>, usize>,
    value: Arc<V>,
) -> Arc<V> {
    if let Some((known, _)) = shared.get_key_value(&value) {
        let known = Arc::clone(known);
        *shared.entry(Arc::clone(&known)).or_default() += 1;
        return known;
    }
    shared.insert(Arc::clone(&value), 1);
    value
}

/// Removes the shared copy of a value after its last use.
fn unshare<V: ?Sized + Eq + std::hash::Hash>(shared: &mut HashMap<Arc<V>, usize>, value: &Arc<V>) {
    if let Some(uses) = shared.get_mut(value) {
        *uses -= 1;
        if *uses == 0 {
            shared.remove(value);
        }
    }
}
