//! Between a decision and its write: Reserve and Permit, and the decisions that wait for a permit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use berth_core::{CycleState, PluginError, Point};

use super::Owner;
use super::store::Cycle;
use crate::binding::{Binding, BindingKey};
use crate::framework::service_points::ServicePoints;
use crate::framework::waiting::{Said, Waiting, Word};
use crate::framework::{Decided, Permission};
use crate::metrics::Incoming;
use crate::plan::Plan;
use crate::queue::Verdict;

/// A decision that plugins have books of.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) points: Arc<ServicePoints>,
    pub(super) decided: Decided,
    pub(super) state: CycleState,
}

impl Held {
    /// Gives back what Reserve took, the last plugin first.
    pub(super) fn unreserve(&mut self) {
        self.points.unreserve(&self.decided, &mut self.state);
    }
}

/// A decision that waits.
#[derive(Debug)]
pub(super) struct Parked {
    held: Held,
    cycle: Cycle,
    plan: Plan,
    /// The plugins that it waits for, with the end of each one's patience.
    waits_for: BTreeMap<Arc<str>, Instant>,
}

/// The decisions that wait, by binding.
pub(super) type Lot = BTreeMap<BindingKey, Parked>;

/// How Reserve and Permit ended.
pub(super) enum Passage {
    /// The decision may be stored.
    Through(Held),
    /// It waits for these plugins.
    Waits(Held, BTreeMap<Arc<str>, Instant>),
    /// It may not be stored; nothing is reserved any more.
    Stopped(PluginError),
}

impl Owner {
    /// Runs Reserve and Permit for a decision.
    pub(super) fn reserve(&mut self, mut held: Held, now: Instant) -> Passage {
        let points = Arc::clone(&held.points);
        if let Err(error) = points.reserve(&held.decided, &mut held.state) {
            held.unreserve();
            return Passage::Stopped(error);
        }
        if points.permit.is_empty() {
            return Passage::Through(held);
        }
        let began = Instant::now();
        let (passage, said) = self.permit(held, now);
        let error = match &passage {
            Passage::Stopped(error) => Some(error),
            Passage::Through(_) | Passage::Waits(..) => None,
        };
        points.point_ran(Point::Permit, began, error);
        self.hear_all(said, now);
        passage
    }

    /// Runs Permit; what its plugins say of other decisions comes with it.
    fn permit(&self, mut held: Held, now: Instant) -> (Passage, Vec<Said>) {
        let points = Arc::clone(&held.points);
        let mut waits_for = BTreeMap::new();
        let mut said = Vec::new();
        for plugin in &points.permit {
            let mut waiting = waiting(&self.parked, &plugin.name);
            let permission = points.permit(plugin, &held.decided, &mut held.state, &mut waiting);
            said.append(&mut waiting.said);
            match permission {
                Ok(Permission::Allow) => {}
                Ok(Permission::Wait(patience)) => {
                    waits_for.insert(Arc::clone(&plugin.name), now + patience);
                }
                Ok(Permission::Deny(why)) => {
                    held.unreserve();
                    let error = PluginError::unschedulable(why).of(&plugin.name, Point::Permit);
                    return (Passage::Stopped(error), said);
                }
                Err(error) => {
                    held.unreserve();
                    return (Passage::Stopped(error), said);
                }
            }
        }
        let passage = if waits_for.is_empty() {
            Passage::Through(held)
        } else {
            Passage::Waits(held, waits_for)
        };
        (passage, said)
    }

    /// Lets a decision wait. Its key stays in processing, and what it takes stays assumed.
    pub(super) fn park(
        &mut self,
        held: Held,
        cycle: Cycle,
        plan: Plan,
        waits_for: BTreeMap<Arc<str>, Instant>,
    ) {
        tracing::debug!(binding = %cycle.key(), plugins = ?waits_for.keys(), "waits for a permit");
        let key = cycle.key().clone();
        let parked = Parked {
            held,
            cycle,
            plan,
            waits_for,
        };
        self.parked.insert(key, parked);
    }

    /// What plugins say of waiting decisions, and what follows from it.
    pub(super) fn hear_all(&mut self, said: Vec<Said>, now: Instant) {
        let mut said = VecDeque::from(said);
        while let Some(Said { plugin, key, word }) = said.pop_front() {
            match word {
                Word::Look(keys) => self.look_again_at(&keys, now),
                Word::Allow => self.allow(&plugin, &key),
                Word::Reject(why) => said.extend(self.reject(&key, &plugin, why, now)),
            }
        }
    }

    fn allow(&mut self, plugin: &Arc<str>, key: &BindingKey) {
        let Some(parked) = self.parked.get_mut(key) else {
            return;
        };
        parked.waits_for.remove(plugin);
        if parked.waits_for.is_empty()
            && let Some(Parked {
                held, cycle, plan, ..
            }) = self.parked.remove(key)
        {
            self.store(cycle, plan, Some(held));
        }
    }

    /// A waiting decision may not be stored. What its plugins say of others then is given back.
    fn reject(
        &mut self,
        key: &BindingKey,
        plugin: &Arc<str>,
        why: String,
        now: Instant,
    ) -> Vec<Said> {
        let Some(mut parked) = self.parked.remove(key) else {
            return Vec::new();
        };
        parked.held.unreserve();
        self.settle(key, false);
        let mut said = Vec::new();
        let points = Arc::clone(&parked.held.points);
        for permit in &points.permit {
            let mut waiting = waiting(&self.parked, &permit.name);
            points.rejected(permit, &parked.held.decided.binding, &mut waiting);
            said.append(&mut waiting.said);
        }
        self.room_is_given_up(&parked.held, now);
        let error = PluginError::unschedulable(why).of(plugin, Point::Permit);
        self.stopped(parked.cycle, &error, now);
        said
    }

    /// A decision will not be stored: others may fit where it would have gone. They come again after their
    /// backoff, so that two that send each other back do not keep the owner busy.
    fn room_is_given_up(&mut self, held: &Held, now: Instant) {
        if self.assumptions.is_none() {
            return;
        }
        let rejected = &held.decided.binding;
        let sleepers: Vec<BindingKey> = self.queue.sleepers().cloned().collect();
        for key in sleepers {
            let Some(entry) = self.bindings.get(&key) else {
                continue;
            };
            let other = &entry.binding;
            let mut permits = held.points.permit.iter();
            if permits.all(|permit| permit.point.gains(rejected, other)) {
                self.queue.wake_later(&key, now);
            }
        }
    }

    /// The binding of a waiting decision is other than it was, or gone: the decision is void.
    pub(super) fn void(&mut self, binding: &Binding, now: Instant) {
        let Some(parked) = self.parked.get(&binding.key) else {
            return;
        };
        let decided = &parked.held.decided.binding;
        let same = decided.metadata.uid == binding.metadata.uid
            && decided.generation() == binding.generation()
            && !binding.deleting();
        if !same {
            self.drop_parked(&binding.key, now);
        }
    }

    /// Gives up a waiting decision without a word: its binding is looked at again, if it is still there.
    pub(super) fn drop_parked(&mut self, key: &BindingKey, now: Instant) {
        let Some(mut parked) = self.parked.remove(key) else {
            return;
        };
        parked.held.unreserve();
        self.settle(key, false);
        let mut said = Vec::new();
        let points = Arc::clone(&parked.held.points);
        for permit in &points.permit {
            let mut waiting = waiting(&self.parked, &permit.name);
            points.rejected(permit, &parked.held.decided.binding, &mut waiting);
            said.append(&mut waiting.said);
        }
        self.queue.done(key, Verdict::Again, now);
        self.hear_all(said, now);
    }

    /// When the patience of a plugin ends next.
    pub(super) fn next_permit_ends(&self) -> Option<Instant> {
        self.parked
            .values()
            .flat_map(|parked| parked.waits_for.values())
            .min()
            .copied()
    }

    /// Rejects the decisions that have waited long enough.
    pub(super) fn end_permits(&mut self, now: Instant) {
        let over: Vec<Said> = self
            .parked
            .iter()
            .filter_map(|(key, parked)| {
                let (plugin, _) = parked.waits_for.iter().find(|(_, until)| **until <= now)?;
                Some(Said {
                    plugin: Arc::clone(plugin),
                    key: key.clone(),
                    word: Word::Reject("timed out while it waited for a permit".to_owned()),
                })
            })
            .collect();
        if !over.is_empty() {
            self.hear_all(over, now);
        }
    }

    /// A plugin has stopped a binding after its decision: the condition says so.
    pub(super) fn stopped(&mut self, cycle: Cycle, error: &PluginError, now: Instant) {
        let Some(binding) = self
            .bindings
            .get(cycle.key())
            .map(|entry| entry.binding.clone())
        else {
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
        self.store(cycle, plan, None);
    }
}

/// The decisions that wait for a plugin.
fn waiting<'a>(parked: &'a Lot, plugin: &Arc<str>) -> Waiting<'a> {
    Waiting {
        plugin: Arc::clone(plugin),
        decided: parked
            .values()
            .filter(|parked| parked.waits_for.contains_key(plugin))
            .map(|parked| &parked.held.decided)
            .collect(),
        said: Vec::new(),
    }
}
