//! The schedule of planning: the objects to plan now, and those to plan at a given time without any change.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::plan::plan;
use crate::scope::Scope;
use crate::world::World;

/// The objects to plan.
#[derive(Debug)]
pub(crate) struct Agenda {
    now: Scope,
    later: BTreeSet<(jiff::Timestamp, String)>,
}

impl Agenda {
    /// Creates a schedule with all objects.
    pub(crate) fn new() -> Self {
        Self {
            now: Scope::all(),
            later: BTreeSet::new(),
        }
    }

    /// Returns the actions that are due now. The planned objects are done when there are no more actions.
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

    /// Returns the time of the next planning without any change.
    pub(crate) fn wake(&self) -> Option<jiff::Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }
}
