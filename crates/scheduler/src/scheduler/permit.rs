//! The Reserve and Permit phases of a scheduling cycle, and the parked decisions. A parked decision waits until Permit
//! plugins allow or reject it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::BindingKey;
use berth_engine::{PluginError, Point};

use super::cache::Cache;
use super::in_flight::{Cycle, ReservedDecision};
use crate::framework::plugin_messages::{PermitDecision, PluginMessage};
use crate::framework::{DecisionFate, Permission, Waiting};
use crate::rules::plan::Plan;

/// A decision that waits for Permit plugins.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) decision: ReservedDecision,
    pub(super) cycle: Cycle,
    pub(super) plan: Plan,
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
    pub(super) fn allow(&mut self, plugin: &Arc<str>, key: &BindingKey) -> Option<Parked> {
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
    pub(super) fn overdue(&self, now: Instant) -> Vec<PluginMessage> {
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

    /// Returns the parked decision about a binding.
    pub(super) fn get(&self, key: &BindingKey) -> Option<&Parked> {
        self.0.get(key)
    }

    /// Runs Reserve and Permit for a decision. Also returns the plugins' messages about other decisions.
    pub(super) fn reserve_and_permit(
        &self,
        mut decision: ReservedDecision,
        now: Instant,
    ) -> (PermitOutcome, Vec<PluginMessage>) {
        let points = Arc::clone(&decision.points);
        if let Err(error) = points.reserve(&decision.decided, &mut decision.state) {
            decision.unreserve();
            return (PermitOutcome::Stopped(error), Vec::new());
        }
        if points.permit.is_empty() {
            return (PermitOutcome::Allowed(decision), Vec::new());
        }
        let began = Instant::now();
        let (outcome, messages) = self.permit(decision, now);
        let error = match &outcome {
            PermitOutcome::Stopped(error) => Some(error),
            PermitOutcome::Allowed(_) | PermitOutcome::Waiting(..) => None,
        };
        points.point_ran(Point::Permit, began, error);
        (outcome, messages)
    }

    fn permit(
        &self,
        mut decision: ReservedDecision,
        now: Instant,
    ) -> (PermitOutcome, Vec<PluginMessage>) {
        let points = Arc::clone(&decision.points);
        let mut waits_for = BTreeMap::new();
        let mut messages = Vec::new();
        for plugin in &points.permit {
            let mut waiting = self.waiting_for(&plugin.name);
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
        for plugin in waits_for.keys() {
            tracing::debug!(binding = %cycle.key(), %plugin, "waits for a permit");
        }
        let key = cycle.key().clone();
        let parked = Parked {
            decision,
            cycle,
            plan,
            waits_for,
        };
        self.0.insert(key, parked);
    }

    /// Removes and reverts a parked decision, and notifies its Permit plugins. Returns the plugins' messages about other
    /// decisions.
    pub(super) fn revert(
        &mut self,
        key: &BindingKey,
        cache: &mut Cache,
    ) -> Option<(Parked, Vec<PluginMessage>)> {
        let mut parked = self.0.remove(key)?;
        parked.decision.unreserve();
        cache.complete(key, DecisionFate::Dropped);
        let mut messages = Vec::new();
        let points = &parked.decision.points;
        for permit in &points.permit {
            let mut waiting = self.waiting_for(&permit.name);
            points.rejected(permit, &parked.decision.decided.binding, &mut waiting);
            messages.append(&mut waiting.messages);
        }
        Some((parked, messages))
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
