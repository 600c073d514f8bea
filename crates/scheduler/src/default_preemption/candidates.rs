//! The candidates for preemption: assignments of lower priority, the least important assignment first.

use std::cmp::Reverse;

use berth_api::Binding;
use berth_engine::Bits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::is_preemptible;
use crate::framework::{PostFilterContext, Victim};
use berth_api::well_known::PREEMPTED;

/// Assignments that the scheduler may evict for a binding. Each list starts with the least important assignment.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Assignments that an earlier preemption is evicting. As victims, they need no further eviction.
    pub(super) evicting: Vec<Victim>,
    /// Assignments that no preemption is evicting.
    pub(super) placed: Vec<Victim>,
}

impl Candidates {
    pub(super) fn is_empty(&self) -> bool {
        self.evicting.is_empty() && self.placed.is_empty()
    }
}

/// Sort key of an assignment. The lowest priority comes first, then the youngest binding. If priority and age are
/// equal, the names of the binding and the cluster determine the order.
type SortKey = (i32, Reverse<Option<Time>>, Victim);

/// Returns the assignments whose eviction may help the binding of the context.
pub(super) fn of(context: &PostFilterContext<'_>) -> Candidates {
    let binding = context.binding;
    let priority = binding.spec.priority();
    let useful = could_be_targets(context);
    let is_useful = |cluster: &str| {
        let ordinal = context.snapshot.ordinal(cluster);
        ordinal.is_some_and(|ordinal| useful.contains(ordinal))
    };
    let lower_priority = context.bindings.iter().filter(|other| {
        other.key != binding.key
            && other.spec.priority() < priority
            && other.spec.is_workload()
            && other.spec.scheduler() == binding.spec.scheduler()
    });
    let (mut evicting, mut placed): (Vec<SortKey>, Vec<SortKey>) = (Vec::new(), Vec::new());
    for other in lower_priority {
        for task in &other.spec.graceful_eviction_tasks {
            if task.reason == PREEMPTED && is_useful(&task.from_cluster) {
                evicting.push(sort_key(&other, &task.from_cluster));
            }
        }
        if !is_preemptible(&other) {
            continue;
        }
        for target in &other.spec.clusters {
            let takes_capacity = target.replicas > 0 || !other.spec.components.is_empty();
            if takes_capacity && is_useful(&target.name) {
                placed.push(sort_key(&other, &target.name));
            }
        }
    }
    Candidates {
        evicting: sorted(evicting),
        placed: sorted(placed),
    }
}

fn sort_key(binding: &Binding, cluster: &str) -> SortKey {
    let victim = Victim {
        key: binding.key.clone(),
        cluster: cluster.to_owned(),
    };
    let created = binding.metadata.creation_timestamp.clone();
    (binding.spec.priority(), Reverse(created), victim)
}

fn sorted(mut keys: Vec<SortKey>) -> Vec<Victim> {
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, victim)| victim).collect()
}

/// Returns the clusters that at least one affinity of the placement selects. The binding cannot use the capacity of any
/// other cluster.
fn could_be_targets(context: &PostFilterContext<'_>) -> Bits {
    let (snapshot, placement) = (context.snapshot, context.request.placement());
    let terms = placement.terms();
    if terms.is_empty() {
        return match placement.affinity() {
            Some(affinity) => snapshot.matching(affinity),
            None => Bits::all(snapshot.len()),
        };
    }
    let mut useful = Bits::none(snapshot.len());
    for affinity in terms
        .iter()
        .flat_map(|term| std::iter::once(term.primary()).chain(term.overflow()))
    {
        useful.unite(&snapshot.matching(affinity));
    }
    useful
}
