//! What has to be looked at now, and when something has to be looked at although nothing changes.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::plan::plan;
use crate::scope::Scope;
use crate::world::World;

/// What is left to look at.
#[derive(Debug)]
pub(crate) struct Agenda {
    now: Scope,
    later: BTreeSet<(jiff::Timestamp, String)>,
}

impl Agenda {
    /// Everything is new.
    pub(crate) fn new() -> Self {
        Self {
            now: Scope::all(),
            later: BTreeSet::new(),
        }
    }

    /// What is to be done now. What had to be looked at is done with when nothing is left to do about it.
    pub(crate) fn next(&mut self, world: &mut World, now: jiff::Timestamp) -> Vec<Action> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
        {
            if let Some((_, uid)) = self.later.pop_first() {
                self.now.add(uid);
            }
        }
        world.changed(&mut self.now);
        if self.now.is_empty() {
            return Vec::new();
        }
        self.now.spread(world);
        let plan = plan(world, &self.now, now);
        self.later.extend(plan.wakes);
        if plan.actions.is_empty() {
            self.now = Scope::default();
        }
        plan.actions
    }

    /// When to look again at the latest.
    pub(crate) fn wake(&self) -> Option<jiff::Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }
}
