//! The schedule of planning: the objects to plan now, and the times at which other objects must be planned.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::cache::Cache;
use crate::image_registry::ImageRegistry;
use crate::planner::plan;
use crate::scope::Scope;

/// The objects to plan now and later.
#[derive(Debug)]
pub(crate) struct WorkSchedule {
    images: ImageRegistry,
    now: Scope,
    later: BTreeSet<(jiff::Timestamp, String)>,
}

impl WorkSchedule {
    /// Creates a schedule in which all objects are planned now.
    pub(crate) fn new(images: ImageRegistry) -> Self {
        Self {
            images,
            now: Scope::all(),
            later: BTreeSet::new(),
        }
    }

    /// Plans the objects that are due, and returns their actions. Objects remain due until a planning returns no
    /// action.
    pub(crate) fn next(&mut self, cache: &mut Cache, now: jiff::Timestamp) -> Vec<Action> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
        {
            if let Some((_, uid)) = self.later.pop_first() {
                self.now.add(uid);
            }
        }
        cache.changed(&mut self.now);
        if self.now.is_empty() {
            return Vec::new();
        }
        self.now.add_dependents(cache.dependents());
        let plan = plan(cache, &self.now, &self.images, now);
        self.later.extend(plan.replan_at);
        if plan.actions.is_empty() {
            self.now = Scope::default();
        }
        plan.actions
    }

    /// Returns the time of the next planning that happens without a change of an object.
    pub(crate) fn next_time(&self) -> Option<jiff::Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }
}
