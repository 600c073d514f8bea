//! The rounds of decisions after the first round of a prediction. Rounds follow until no binding moves.
//!
//! The first round schedules each binding once, with the capacity that the clusters report. After each round, the
//! capacity of the clusters is updated by the moves of the round. The next round schedules the bindings that lacked
//! capacity, that preempt other bindings, or that were preempted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::rules::condition::Reason;

use super::decide::{Decider, Decision, Failure, has_failed, shares};
use super::evictions::evict;
use super::state::Bindings;

/// Maximum number of rounds.
const ROUNDS: usize = 10;

/// The results of the first round that further rounds need.
#[derive(Debug, Default)]
pub(crate) struct FirstRound {
    /// Decisions that failed or moved a binding.
    decisions: Vec<Decision>,
    /// Bindings whose last scheduling failed before the simulation, and which the first round did not change.
    waiting: BTreeSet<BindingKey>,
}

impl FirstRound {
    /// Adds a decision about a binding, if further rounds need it.
    pub(crate) fn record(&mut self, binding: &Binding, decision: &Decision) {
        if decision.failure.is_some() || decision.clusters != shares(&binding.spec) {
            self.decisions.push(decision.without_explanation());
        } else if has_failed(&binding.status) {
            self.waiting.insert(binding.key.clone());
        }
    }
}

/// The decisions of further rounds.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The last decision about each binding that a further round has scheduled.
    pub(crate) decisions: BTreeMap<BindingKey, Decision>,
    /// Remarks, one line each.
    pub(crate) remarks: Vec<String>,
}

/// A gang: bindings that must be placed together.
#[derive(Debug, Default)]
struct Gang {
    /// Minimum number of placed bindings.
    needed: usize,
    /// Number of placed bindings.
    placed: usize,
    /// Bindings that were unplaced before the simulation and are placed now.
    new: Vec<BindingKey>,
}

/// The state of the bindings after the previous rounds.
struct Rounds<'a> {
    decider: &'a mut Decider,
    /// All bindings before the first round.
    bindings: &'a Bindings,
    /// Bindings that a round has changed.
    changed: Bindings,
    /// Bindings that currently fit into no cluster.
    unplaced: BTreeSet<BindingKey>,
    /// Bindings that failed before the simulation. They are scheduled after a round that frees capacity.
    waiting: BTreeSet<BindingKey>,
    /// Bindings of gangs with too few placed bindings. No further round schedules them.
    rejected: BTreeSet<BindingKey>,
    settled: Settled,
}

/// Runs further rounds after the first round, until no binding needs another decision or [`ROUNDS`] is reached.
pub(crate) async fn settle(
    decider: &mut Decider,
    bindings: &Bindings,
    first: FirstRound,
) -> Settled {
    decider.show_bindings(bindings.values());
    let mut rounds = Rounds {
        decider,
        bindings,
        changed: Bindings::new(),
        unplaced: BTreeSet::new(),
        waiting: first.waiting,
        rejected: BTreeSet::new(),
        settled: Settled::default(),
    };
    for decision in &first.decisions {
        rounds.place(decision);
    }
    for round in 1.. {
        let again = rounds.end_round();
        if again.is_empty() {
            break;
        }
        if round == ROUNDS {
            rounds.settled.remarks.push(format!(
                "not simulated: changes after {ROUNDS} rounds of decisions"
            ));
            break;
        }
        for key in again {
            let Some(binding) = rounds.binding(&key).cloned() else {
                continue;
            };
            let decision = rounds.decider.decide(&binding).await;
            rounds.place(&decision);
            rounds.settled.decisions.insert(key, decision);
        }
    }
    rounds.settled
}

impl Rounds<'_> {
    fn binding(&self, key: &BindingKey) -> Option<&Arc<Binding>> {
        self.changed.get(key).or_else(|| self.bindings.get(key))
    }

    fn priority(&self, key: &BindingKey) -> i32 {
        self.binding(key)
            .map_or(0, |binding| binding.spec.priority())
    }

    /// Updates the state of a binding after a decision.
    fn place(&mut self, decision: &Decision) {
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
            self.change(binding);
        }
    }

    fn change(&mut self, binding: Binding) {
        let binding = Arc::new(binding);
        self.decider.show_binding(&binding);
        self.changed.insert(binding.key.clone(), binding);
    }

    /// Updates the capacity of the clusters by the moves of the round. Returns the bindings to schedule in the next
    /// round, sorted by descending priority.
    fn end_round(&mut self) -> Vec<BindingKey> {
        self.reject_gangs();
        let freed = self.decider.report_capacity();
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
            .moved(&binding, &shares(&binding.spec), &shares(&evicted.spec));
        self.decider.report_capacity();
        self.change(evicted);
        let remark = format!("{preemptor} preempts {victim} in {cluster}");
        self.settled.remarks.push(remark);
    }

    /// Removes the new placements of each gang that has fewer placed bindings than the gang needs.
    fn reject_gangs(&mut self) {
        if !self.decider.schedules_gangs() {
            return;
        }
        let mut gangs: BTreeMap<String, Gang> = BTreeMap::new();
        for (key, before) in self.bindings {
            let Some((name, needed)) = self.decider.gang_of(before) else {
                continue;
            };
            let now = self.binding(key).unwrap_or(before);
            let is_placed = !now.spec.clusters.is_empty();
            let was_placed = !before.spec.clusters.is_empty();
            let gang = gangs.entry(name).or_default();
            gang.needed = gang.needed.max(needed);
            gang.placed += usize::from(is_placed);
            if is_placed && !was_placed {
                gang.new.push(key.clone());
            }
        }
        for (name, gang) in gangs {
            if gang.placed >= gang.needed {
                continue;
            }
            let message = format!(
                "{} of at least {} members of gang {name} fit",
                gang.placed, gang.needed
            );
            for key in gang.new {
                self.withhold(key, &message);
            }
        }
    }

    /// Removes the new placement of a binding that belongs to a gang.
    fn withhold(&mut self, key: BindingKey, message: &str) {
        let (Some(before), Some(now)) = (self.bindings.get(&key), self.binding(&key).cloned())
        else {
            return;
        };
        let failure = Failure {
            kind: Reason::Unschedulable.as_str(),
            message: message.to_owned(),
        };
        let decision = Decision::undecided(before, Some(failure));
        self.decider
            .moved(&now, &shares(&now.spec), &decision.clusters);
        self.place(&decision);
        self.settled.decisions.insert(key.clone(), decision);
        self.rejected.insert(key);
    }
}
