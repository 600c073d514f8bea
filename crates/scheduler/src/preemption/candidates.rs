//! Which assignments a binding may take the room of, and which of them it would rather take.

use std::cmp::Reverse;

use berth_core::Bits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{REASON, is_preemptible};
use crate::binding::Binding;
use crate::framework::{PostFilterContext, Victim};

/// Assignments, those that matter least first.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// On their way out, for this binding or another: they cost nothing.
    pub(super) going: Vec<Victim>,
    /// Still in place.
    pub(super) staying: Vec<Victim>,
}

impl Candidates {
    pub(super) fn is_empty(&self) -> bool {
        self.going.is_empty() && self.staying.is_empty()
    }
}

/// Where an assignment stands among the others: the lowest priority first, then the youngest, then by name.
type Place = (i32, Reverse<Option<Time>>, Victim);

/// What could make room for the binding.
pub(super) fn of(context: &PostFilterContext<'_>) -> Candidates {
    let binding = context.binding;
    let priority = binding.spec.priority();
    let useful = could_be_targets(context);
    let is_useful = |cluster: &str| {
        let ordinal = context.snapshot.ordinal(cluster);
        ordinal.is_some_and(|ordinal| useful.contains(ordinal))
    };
    let lesser = context.bindings.iter().filter(|other| {
        other.key != binding.key
            && other.spec.priority() < priority
            && other.spec.is_workload()
            && other.spec.scheduler() == binding.spec.scheduler()
    });
    let (mut going, mut staying): (Vec<Place>, Vec<Place>) = (Vec::new(), Vec::new());
    for other in lesser {
        for task in &other.spec.graceful_eviction_tasks {
            if task.reason == REASON && is_useful(&task.from_cluster) {
                going.push(place(&other, &task.from_cluster));
            }
        }
        if !is_preemptible(&other) {
            continue;
        }
        for target in &other.spec.clusters {
            let takes_room = target.replicas > 0 || !other.spec.components.is_empty();
            if takes_room && is_useful(&target.name) {
                staying.push(place(&other, &target.name));
            }
        }
    }
    Candidates {
        going: sorted(going),
        staying: sorted(staying),
    }
}

fn place(binding: &Binding, cluster: &str) -> Place {
    let victim = Victim {
        key: binding.key.clone(),
        cluster: cluster.to_owned(),
    };
    let created = binding.metadata.creation_timestamp.clone();
    (binding.spec.priority(), Reverse(created), victim)
}

fn sorted(mut places: Vec<Place>) -> Vec<Victim> {
    places.sort_unstable();
    places.into_iter().map(|(_, _, victim)| victim).collect()
}

/// The clusters that some affinity of the placement names: room anywhere else does not help.
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
