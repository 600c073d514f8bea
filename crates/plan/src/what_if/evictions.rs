//! Predicted evictions after a `NoExecute` taint is added to a cluster, by the rules of Karmada's taint manager, and from
//! clusters that are drained.

use std::sync::Arc;

use berth_api::binding::GracefulEvictionTask;
use berth_api::{Binding, Cluster};
use berth_controllers::failover::eviction_delay;
use k8s_openapi::api::core::v1::Taint;

use super::drain::can_be_evicted;
use crate::control_plane_state::{Bindings, Clusters, ControlPlaneState};

/// Maximum number of evictions that a remark lists.
const MAX_NAMES: usize = 5;

/// The predicted evictions.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    /// The evicted bindings, after their eviction from the tainted clusters.
    pub(crate) bindings: Bindings,
    /// Remarks, one line each.
    pub(crate) remarks: Vec<String>,
}

/// Returns the evictions that a change causes: from drained clusters, and by new taints.
pub(crate) fn of_change(before: &Clusters, after: &ControlPlaneState) -> Evictions {
    let mut evictions = by_new_taints(before, after);
    for cluster in &after.drained {
        for (key, binding) in &after.bindings {
            let current = evictions.bindings.get(key).unwrap_or(binding);
            let is_assigned = current.spec.clusters.iter().any(|t| t.name == *cluster);
            if is_assigned && can_be_evicted(current, cluster) {
                let mut evicted = Binding::clone(current);
                evict(&mut evicted, cluster, "Drain");
                evictions.bindings.insert(key.clone(), evicted.into());
            }
        }
    }
    evictions
}

/// Returns the evictions by the taints that are new in `after`. Older taints have already evicted their bindings.
fn by_new_taints(before: &Clusters, after: &ControlPlaneState) -> Evictions {
    let mut evictions = Evictions::default();
    let mut evicted = Vec::new();
    for (name, cluster) in &after.clusters {
        let new = new_taints(before.get(name).map(|cluster| &**cluster), cluster);
        if new.is_empty() {
            continue;
        }
        for (key, binding) in &after.bindings {
            let is_assigned = binding.spec.clusters.iter().any(|t| t.name == *name);
            if !is_assigned || binding.deleting() {
                continue;
            }
            let Some(delay) = eviction_delay(binding.spec.placement.as_ref(), &new) else {
                continue;
            };
            let current = evictions.bindings.entry(key.clone());
            let current = current.or_insert_with(|| Arc::clone(binding));
            evict(Arc::make_mut(current), name, "TaintUntolerated");
            evicted.push(match delay {
                0 => format!("{key} from {name}"),
                seconds => format!("{key} from {name} after {seconds} s"),
            });
        }
    }
    if !evicted.is_empty() {
        let more = evicted.len().saturating_sub(MAX_NAMES);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = evicted.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>();
        evictions.remarks.push(format!(
            "NoExecute evicts {}{more}, if the controllers run with the feature gate Failover and \
             --enable-no-execute-taint-eviction",
            named.join(", ")
        ));
    }
    evictions
}

/// Returns the `NoExecute` taints that a cluster has and did not have before.
fn new_taints(before: Option<&Cluster>, after: &Cluster) -> Vec<Taint> {
    // No binding is placed in a joining cluster yet.
    let Some(before) = before else {
        return Vec::new();
    };
    let is_known = |taint: &Taint| {
        before.spec.taints.iter().any(|known| {
            known.key == taint.key && known.value == taint.value && known.effect == taint.effect
        })
    };
    let evicts = |taint: &&Taint| taint.effect == "NoExecute" && !is_known(taint);
    after.spec.taints.iter().filter(evicts).cloned().collect()
}

/// Evicts a binding from a cluster: removes the cluster, and adds a graceful eviction task. The scheduler does not
/// select a cluster for which the binding has such a task.
pub(crate) fn evict(binding: &mut Binding, cluster: &str, reason: &str) {
    let clusters = &mut binding.spec.clusters;
    let replicas = clusters.iter().find(|t| t.name == cluster);
    let replicas = replicas.map(|target| target.replicas);
    clusters.retain(|target| target.name != cluster);
    binding
        .spec
        .graceful_eviction_tasks
        .push(GracefulEvictionTask {
            from_cluster: cluster.to_owned(),
            replicas,
            reason: reason.to_owned(),
            producer: "simulation".to_owned(),
            ..GracefulEvictionTask::default()
        });
    let generation = binding.metadata.generation.unwrap_or(0);
    binding.metadata.generation = Some(generation.saturating_add(1));
}
