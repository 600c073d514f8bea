//! Repeats the decisions of a simulation until nothing moves any more.
//!
//! The first round decides about each binding once, on the capacity that the clusters report. Then the clusters report
//! what the round has moved, and bindings that lack capacity, that preempt others or that were preempted are decided again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::rules::condition::Reason;

use super::decide::{Decider, Decision, Failure, has_failed, shares};
use super::evictions::evict;
use super::state::Bindings;

/// Maximum rounds.
const ROUNDS: usize = 10;

/// Decisions of the first round that affect further ones.
#[derive(Debug, Default)]
pub(crate) struct FirstRound {
    decisions: Vec<Decision>,
    /// Bindings that had failed before and were not decided about.
    waiting: BTreeSet<BindingKey>,
}

impl FirstRound {
    /// Adds a decision about a binding.
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
    /// The last decision about each binding that a further round has changed.
    pub(crate) decisions: BTreeMap<BindingKey, Decision>,
    /// Remarks, one line each.
    pub(crate) remarks: Vec<String>,
}

/// Gang with its members.
#[derive(Debug, Default)]
struct Gang {
    needed: usize,
    placed: usize,
    /// Members that the simulation has placed.
    new: Vec<BindingKey>,
}

/// Bindings as the rounds have left them.
struct Rounds<'a> {
    decider: &'a mut Decider,
    bindings: &'a Bindings,
    /// Bindings that differ from `bindings`.
    changed: Bindings,
    /// Bindings that fit nowhere for now.
    unplaced: BTreeSet<BindingKey>,
    /// Bindings that failed before the simulation. They are decided about when capacity is free.
    waiting: BTreeSet<BindingKey>,
    /// Members of gangs that are too small.
    rejected: BTreeSet<BindingKey>,
    settled: Settled,
}

/// Decides again until nothing moves.
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

    /// Updates a binding after a decision.
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

    /// Lets the clusters report the moves of the round. Returns the bindings to decide about in the next one, the most
    /// important first.
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

    /// Removes a binding from a cluster for a more important one. Its capacity is free for the next decisions.
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

    /// Takes back the new placements of gangs with fewer placed members than they need.
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

    /// Takes back the placement of a member.
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
