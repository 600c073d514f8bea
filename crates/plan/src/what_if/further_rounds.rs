//! The rounds of decisions after the first round of a prediction, until no binding needs another decision.
//!
//! The first round schedules each binding once, with the capacity that the clusters report. After each round, the
//! capacity of the clusters is updated by the moves of the round. The next round schedules the bindings that lacked
//! capacity, that preempt other bindings, or that were preempted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use berth_engine::ScheduledReason;

use super::decider::Decider;
use super::decision::{Decision, Failure, shares};
use super::evictions::evict;
use super::first_round::FirstRoundResults;
use crate::control_plane_state::Bindings;

/// Maximum number of rounds, including the first round.
const MAX_ROUNDS: usize = 10;

/// The decisions of the further rounds.
#[derive(Debug, Default)]
pub(crate) struct FurtherDecisions {
    /// The last decision about each binding that has a new decision after the first round.
    pub(crate) decisions: BTreeMap<BindingKey, Decision>,
    /// Remarks, one line each.
    pub(crate) remarks: Vec<String>,
}

/// A gang: bindings that must be placed together.
#[derive(Debug, Default)]
struct Gang {
    /// Minimum number of placed bindings.
    min_placed: usize,
    /// Number of placed bindings.
    placed: usize,
    /// Bindings that were unplaced before the simulation and are placed now.
    newly_placed: Vec<BindingKey>,
}

/// The state of the bindings after the previous rounds.
struct RoundState<'a> {
    decider: &'a mut Decider,
    /// All bindings before the first round.
    bindings: &'a Bindings,
    /// Bindings that a round has changed.
    changed: Bindings,
    /// Bindings whose last decision failed for lack of capacity.
    unplaced: BTreeSet<BindingKey>,
    /// Bindings that failed before the simulation. They are scheduled after a round that frees capacity.
    waiting: BTreeSet<BindingKey>,
    /// Bindings that lost their new placement because their gang has too few placed bindings. No further round
    /// schedules them.
    rejected: BTreeSet<BindingKey>,
    further: FurtherDecisions,
}

/// Runs further rounds after the first round, until no binding needs another decision or [`MAX_ROUNDS`] is reached.
pub(crate) async fn run_further_rounds(
    decider: &mut Decider,
    bindings: &Bindings,
    first: FirstRoundResults,
) -> FurtherDecisions {
    decider.pass_bindings_to_plugins(bindings.values());
    let mut state = RoundState {
        decider,
        bindings,
        changed: Bindings::new(),
        unplaced: BTreeSet::new(),
        waiting: first.waiting,
        rejected: BTreeSet::new(),
        further: FurtherDecisions::default(),
    };
    for decision in &first.decisions {
        state.apply_decision(decision);
    }
    for round in 1.. {
        let again = state.end_round();
        if again.is_empty() {
            break;
        }
        if round == MAX_ROUNDS {
            state.further.remarks.push(format!(
                "not simulated: changes after {MAX_ROUNDS} rounds of decisions"
            ));
            break;
        }
        for key in again {
            let Some(binding) = state.binding(&key).cloned() else {
                continue;
            };
            let decision = state.decider.decide(&binding).await;
            state.apply_decision(&decision);
            state.further.decisions.insert(key, decision);
        }
    }
    state.further
}

impl RoundState<'_> {
    fn binding(&self, key: &BindingKey) -> Option<&Arc<Binding>> {
        self.changed.get(key).or_else(|| self.bindings.get(key))
    }

    fn priority(&self, key: &BindingKey) -> i32 {
        self.binding(key)
            .map_or(0, |binding| binding.spec.priority())
    }

    /// Updates the state of a binding after a decision.
    fn apply_decision(&mut self, decision: &Decision) {
        let key = &decision.key;
        if decision.lacks_capacity() {
            self.unplaced.insert(key.clone());
        } else {
            self.unplaced.remove(key);
        }
        let Some(binding) = self.binding(key).cloned() else {
            return;
        };
        if shares(&binding.spec) != decision.clusters {
            let mut binding = Arc::unwrap_or_clone(binding);
            binding.spec.clusters = decision.targets();
            self.update_binding(binding);
        }
    }

    fn update_binding(&mut self, binding: Binding) {
        let binding = Arc::new(binding);
        self.decider.binding_changed(&binding);
        self.changed.insert(binding.key.clone(), binding);
    }

    /// Updates the capacity of the clusters by the moves of the round. Returns the bindings to schedule in the next
    /// round, sorted by descending priority.
    fn end_round(&mut self) -> Vec<BindingKey> {
        self.reject_gangs();
        let freed = self.decider.apply_recorded_moves();
        let mut unplaced: Vec<BindingKey> =
            self.unplaced.difference(&self.rejected).cloned().collect();
        unplaced.sort_by_key(|key| Reverse(self.priority(key)));
        let mut again = BTreeSet::new();
        for key in unplaced {
            let Some(binding) = self.binding(&key).cloned() else {
                continue;
            };
            let victims = self.decider.victims(&binding);
            if victims.is_empty() && !freed {
                continue;
            }
            for victim in victims {
                self.preempt(&victim.key, &victim.cluster, &key);
                again.insert(victim.key);
            }
            again.insert(key);
        }
        if freed {
            again.append(&mut self.waiting);
        }
        let mut again: Vec<BindingKey> = again.into_iter().collect();
        again.sort_by_key(|key| Reverse(self.priority(key)));
        again
    }

    /// Evicts the binding `victim` from a cluster in favour of the binding `preemptor`. The next decisions use the
    /// freed capacity.
    fn preempt(&mut self, victim: &BindingKey, cluster: &str, preemptor: &BindingKey) {
        let Some(binding) = self.binding(victim).cloned() else {
            return;
        };
        let mut evicted = Binding::clone(&binding);
        evict(&mut evicted, cluster, "Preempted");
        self.decider
            .record_move(&binding, &shares(&binding.spec), &shares(&evicted.spec));
        self.decider.apply_recorded_moves();
        self.update_binding(evicted);
        let remark = format!("{preemptor} preempts {victim} in {cluster}");
        self.further.remarks.push(remark);
    }

    /// Removes the new placements of each gang that has fewer placed bindings than the gang needs.
    fn reject_gangs(&mut self) {
        if !self.decider.schedules_gangs() {
            return;
        }
        let mut gangs: BTreeMap<String, Gang> = BTreeMap::new();
        for (key, before) in self.bindings {
            let Some((name, min_placed)) = self.decider.gang_of(before) else {
                continue;
            };
            let now = self.binding(key).unwrap_or(before);
            let is_placed = !now.spec.clusters.is_empty();
            let was_placed = !before.spec.clusters.is_empty();
            let gang = gangs.entry(name).or_default();
            gang.min_placed = gang.min_placed.max(min_placed);
            gang.placed += usize::from(is_placed);
            if is_placed && !was_placed {
                gang.newly_placed.push(key.clone());
            }
        }
        for (name, gang) in gangs {
            if gang.placed >= gang.min_placed {
                continue;
            }
            let message = format!(
                "{} of at least {} members of gang {name} fit",
                gang.placed, gang.min_placed
            );
            for key in gang.newly_placed {
                self.remove_new_placement(key, &message);
            }
        }
    }

    /// Removes the new placement of a binding that belongs to a gang.
    fn remove_new_placement(&mut self, key: BindingKey, message: &str) {
        let (Some(before), Some(now)) = (self.bindings.get(&key), self.binding(&key).cloned())
        else {
            return;
        };
        let failure = Failure {
            kind: ScheduledReason::Unschedulable.as_str(),
            message: message.to_owned(),
        };
        let decision = Decision::undecided(before, Some(failure));
        self.decider
            .record_move(&now, &shares(&now.spec), &decision.clusters);
        self.apply_decision(&decision);
        self.further.decisions.insert(key.clone(), decision);
        self.rejected.insert(key);
    }
}
