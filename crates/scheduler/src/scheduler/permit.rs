//! The Reserve and Permit phases of a scheduling cycle, and the parked decisions. A parked decision waits until Permit
//! plugins allow or reject it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::{PluginError, Point};

use super::Scheduler;
use super::in_flight::{Cycle, ReservedDecision};
use crate::framework::plugin_messages::{PermitDecision, PluginMessage};
use crate::framework::{Permission, Waiting};
use crate::metrics::Incoming;
use crate::queue::Verdict;
use crate::rules::plan::Plan;

/// A decision that waits for Permit plugins.
#[derive(Debug)]
struct Parked {
    decision: ReservedDecision,
    cycle: Cycle,
    plan: Plan,
    /// Plugins that have not yet allowed the decision, with the deadline of each plugin.
    waits_for: BTreeMap<Arc<str>, Instant>,
}

/// Parked decisions, ordered by binding key.
#[derive(Debug, Default)]
pub(super) struct ParkedBindings(BTreeMap<BindingKey, Parked>);

impl ParkedBindings {
    /// Returns the parked decisions that wait for a plugin.
    fn waiting_for(&self, plugin: &Arc<str>) -> Waiting<'_> {
        let all = self.0.values();
        let waiting = all.filter(|parked| parked.waits_for.contains_key(plugin));
        Waiting {
            plugin: Arc::clone(plugin),
            decided: waiting.map(|parked| &parked.decision.decided).collect(),
            messages: Vec::new(),
        }
    }

    /// Records that a plugin allows a decision. Removes and returns the decision if it waits for no other plugin.
    fn allow(&mut self, plugin: &Arc<str>, key: &BindingKey) -> Option<Parked> {
        let parked = self.0.get_mut(key)?;
        parked.waits_for.remove(plugin);
        if parked.waits_for.is_empty() {
            self.0.remove(key)
        } else {
            None
        }
    }

    /// Returns the keys of all parked decisions.
    pub(super) fn keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.0.keys()
    }

    /// Returns the earliest deadline of all parked decisions.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let all = self.0.values();
        let deadlines = all.flat_map(|parked| parked.waits_for.values());
        deadlines.min().copied()
    }

    /// Returns a rejection for every decision whose deadline has passed.
    fn overdue(&self, now: Instant) -> Vec<PluginMessage> {
        self.0
            .iter()
            .filter_map(|(key, parked)| {
                let (plugin, _) = parked.waits_for.iter().find(|(_, until)| **until <= now)?;
                let reason = "timed out while it waited for a permit".to_owned();
                Some(PluginMessage::Decide {
                    plugin: Arc::clone(plugin),
                    key: key.clone(),
                    decision: PermitDecision::Reject(reason),
                })
            })
            .collect()
    }
}

/// Result of Reserve and Permit.
pub(super) enum PermitOutcome {
    /// The decision may be written.
    Allowed(ReservedDecision),
    /// The decision waits for these plugins until their deadlines.
    Waiting(ReservedDecision, BTreeMap<Arc<str>, Instant>),
    /// The decision must not be written. Its reservations have been reverted.
    Stopped(PluginError),
}

impl Scheduler {
    /// Runs Reserve and Permit for a decision.
    pub(super) fn reserve_and_permit(
        &mut self,
        mut decision: ReservedDecision,
        now: Instant,
    ) -> PermitOutcome {
        let points = Arc::clone(&decision.points);
        if let Err(error) = points.reserve(&decision.decided, &mut decision.state) {
            decision.unreserve();
            return PermitOutcome::Stopped(error);
        }
        if points.permit.is_empty() {
            return PermitOutcome::Allowed(decision);
        }
        let began = Instant::now();
        let (outcome, messages) = self.permit(decision, now);
        let error = match &outcome {
            PermitOutcome::Stopped(error) => Some(error),
            PermitOutcome::Allowed(_) | PermitOutcome::Waiting(..) => None,
        };
        points.point_ran(Point::Permit, began, error);
        self.handle_plugin_messages(messages, now);
        outcome
    }

    /// Runs the Permit plugins for a decision. Also returns the plugins' messages about other decisions.
    fn permit(
        &self,
        mut decision: ReservedDecision,
        now: Instant,
    ) -> (PermitOutcome, Vec<PluginMessage>) {
        let points = Arc::clone(&decision.points);
        let mut waits_for = BTreeMap::new();
        let mut messages = Vec::new();
        for plugin in &points.permit {
            let mut waiting = self.parked.waiting_for(&plugin.name);
            let permission =
                points.permit(plugin, &decision.decided, &mut decision.state, &mut waiting);
            messages.append(&mut waiting.messages);
            match permission {
                Ok(Permission::Allow) => {}
                Ok(Permission::Wait(timeout)) => {
                    waits_for.insert(Arc::clone(&plugin.name), now + timeout);
                }
                Ok(Permission::Deny(reason)) => {
                    decision.unreserve();
                    let error = PluginError::unschedulable(reason).of(&plugin.name, Point::Permit);
                    return (PermitOutcome::Stopped(error), messages);
                }
                Err(error) => {
                    decision.unreserve();
                    return (PermitOutcome::Stopped(error), messages);
                }
            }
        }
        let outcome = if waits_for.is_empty() {
            PermitOutcome::Allowed(decision)
        } else {
            PermitOutcome::Waiting(decision, waits_for)
        };
        (outcome, messages)
    }

    /// Parks a decision. Its key stays in processing, and its capacity stays assumed.
    pub(super) fn park(
        &mut self,
        decision: ReservedDecision,
        cycle: Cycle,
        plan: Plan,
        waits_for: BTreeMap<Arc<str>, Instant>,
    ) {
        tracing::debug!(binding = %cycle.key(), plugins = ?waits_for.keys(), "waits for a permit");
        let key = cycle.key().clone();
        let parked = Parked {
            decision,
            cycle,
            plan,
            waits_for,
        };
        self.parked.0.insert(key, parked);
    }

    /// Handles messages of plugins. A rejection may cause further messages, which are handled as well.
    pub(super) fn handle_plugin_messages(&mut self, messages: Vec<PluginMessage>, now: Instant) {
        let mut messages = VecDeque::from(messages);
        while let Some(message) = messages.pop_front() {
            let (plugin, key, decision) = match message {
                PluginMessage::Requeue(keys) => {
                    self.requeue_for_plugins(&keys, now);
                    continue;
                }
                PluginMessage::Decide {
                    plugin,
                    key,
                    decision,
                } => (plugin, key, decision),
            };
            match decision {
                PermitDecision::Allow => {
                    if let Some(parked) = self.parked.allow(&plugin, &key) {
                        self.write_plan(parked.cycle, parked.plan, Some(parked.decision));
                    }
                }
                PermitDecision::Reject(reason) => {
                    messages.extend(self.reject(&key, &plugin, reason, now));
                }
            }
        }
    }

    /// Rejects a parked decision. Returns the plugins' messages about other decisions.
    fn reject(
        &mut self,
        key: &BindingKey,
        plugin: &Arc<str>,
        reason: String,
        now: Instant,
    ) -> Vec<PluginMessage> {
        let Some(parked) = self.parked.0.remove(key) else {
            return Vec::new();
        };
        let (parked, messages) = self.revert_parked(parked);
        self.retry_after_release(&parked.decision, now);
        let error = PluginError::unschedulable(reason).of(plugin, Point::Permit);
        self.report_stopped(parked.cycle, &error, now);
        messages
    }

    /// Reverts a decision that is no longer parked, and notifies its Permit plugins. Returns the plugins' messages
    /// about other decisions.
    fn revert_parked(&mut self, mut parked: Parked) -> (Parked, Vec<PluginMessage>) {
        parked.decision.unreserve();
        self.complete_decision(parked.cycle.key(), false);
        let mut messages = Vec::new();
        let points = &parked.decision.points;
        for permit in &points.permit {
            let mut waiting = self.parked.waiting_for(&permit.name);
            points.rejected(permit, &parked.decision.decided.binding, &mut waiting);
            messages.append(&mut waiting.messages);
        }
        (parked, messages)
    }

    /// Moves the waiting bindings that may use the capacity of a rejected decision to backoff. With an immediate retry,
    /// two decisions that alternately reject each other would keep the scheduler busy.
    fn retry_after_release(&mut self, rejected: &ReservedDecision, now: Instant) {
        if !self.book.assumes_capacity() {
            return;
        }
        let binding = &rejected.decided.binding;
        let waiting: Vec<BindingKey> = self.queue.delayed_keys().cloned().collect();
        for key in waiting {
            let Some(other) = self.bindings.get(&key) else {
                continue;
            };
            let mut permits = rejected.points.permit.iter();
            if permits.all(|permit| permit.point.gains(binding, other)) {
                self.queue.back_off(&key, now);
            }
        }
    }

    /// Drops the parked decision of a binding that has changed.
    pub(super) fn drop_outdated_decision(&mut self, binding: &Binding, now: Instant) {
        let Some(parked) = self.parked.0.get(&binding.key) else {
            return;
        };
        let decided = &parked.decision.decided.binding;
        let same = decided.metadata.uid == binding.metadata.uid
            && decided.generation() == binding.generation()
            && !binding.deleting();
        if !same {
            self.drop_parked(&binding.key, now);
        }
    }

    /// Drops a parked decision. The condition of its binding stays unchanged. The binding is decided again if it still
    /// exists.
    pub(super) fn drop_parked(&mut self, key: &BindingKey, now: Instant) {
        let Some(parked) = self.parked.0.remove(key) else {
            return;
        };
        let (_, messages) = self.revert_parked(parked);
        self.queue.done(key, Verdict::Again, now);
        self.handle_plugin_messages(messages, now);
    }

    /// Rejects the parked decisions whose deadlines have passed.
    pub(super) fn reject_overdue_permits(&mut self, now: Instant) {
        let overdue = self.parked.overdue(now);
        if !overdue.is_empty() {
            self.handle_plugin_messages(overdue, now);
        }
    }

    /// Reports in the condition of a binding that a plugin stopped its scheduling cycle.
    pub(super) fn report_stopped(&mut self, cycle: Cycle, error: &PluginError, now: Instant) {
        let Some(binding) = self.bindings.get(cycle.key()).cloned() else {
            self.queue.done(cycle.key(), Verdict::Done, now);
            return;
        };
        let plan = Plan::stopped(&binding, error);
        if plan.is_empty() {
            self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            self.queue.done(cycle.key(), plan.verdict, now);
            return;
        }
        let cycle = Cycle { binding, ..cycle };
        self.write_plan(cycle, plan, None);
    }
}
