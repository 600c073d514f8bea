//! The loop state between two plannings: it takes the changed objects from the cache, adds the due objects, and keeps
//! the times of the objects that are not due yet.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::cache::Cache;
use crate::image_registry::ImageRegistry;
use crate::planner::plan;
use crate::scope::Scope;

/// The objects that are due for planning, and the times at which other objects become due.
#[derive(Debug)]
pub(crate) struct WorkSchedule {
    images: ImageRegistry,
    due: Scope,
    replan_at: BTreeSet<(jiff::Timestamp, String)>,
}

impl WorkSchedule {
    /// Creates a schedule in which all objects are planned now.
    pub(crate) fn new(images: ImageRegistry) -> Self {
        Self {
            images,
            due: Scope::all(),
            replan_at: BTreeSet::new(),
        }
    }

    /// Plans the objects that are due, and returns their actions. Objects remain due until a planning returns no
    /// action.
    pub(crate) fn next(&mut self, cache: &mut Cache, now: jiff::Timestamp) -> Vec<Action> {
        while let Some((at, _)) = self.replan_at.first()
            && *at <= now
        {
            if let Some((_, uid)) = self.replan_at.pop_first() {
                self.due.add(uid);
            }
        }
        cache.drain_changes(&mut self.due);
        if self.due.is_empty() {
            return Vec::new();
        }
        self.due.add_dependents(cache.dependents());
        let plan = plan(cache, &self.due, &self.images, now);
        self.replan_at.extend(plan.replan_at);
        if plan.actions.is_empty() {
            self.due = Scope::default();
            return plan.refused.into_iter().map(Action::RefusePods).collect();
        }
        plan.actions
    }

    /// Returns the time of the next planning that happens without a change of an object.
    pub(crate) fn next_time(&self) -> Option<jiff::Timestamp> {
        self.replan_at.first().map(|(at, _)| *at)
    }
}
