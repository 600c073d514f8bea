//! The loop state between two plannings: it takes the changed objects from the cache, adds the due objects, and keeps
//! the times of the objects that are not due yet.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::cache::Cache;
use crate::image_registry::ImageRegistry;
use crate::plan::ObjectPlan;
use crate::planner::plan;
use crate::scope::Scope;

/// The objects that are due for planning, and the times at which other objects become due.
#[derive(Debug)]
pub(crate) struct WorkSchedule {
    images: ImageRegistry,
    due: Scope,
    replan_at: BTreeSet<(jiff::Timestamp, String)>,
    /// The controllers that cannot create pods, because the cluster is full.
    refused: Vec<ObjectReference>,
}

impl WorkSchedule {
    /// Creates a schedule in which all objects are planned now.
    pub(crate) fn new(images: ImageRegistry) -> Self {
        Self {
            images,
            due: Scope::all(),
            replan_at: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    /// Plans the objects that are due, and returns the planned objects with their actions. The caller adds an object
    /// again after executing the actions of the object.
    ///
    /// Objects for which `is_busy` returns true are not planned, because their actions are still being executed.
    pub(crate) fn next(
        &mut self,
        cache: &mut Cache,
        now: jiff::Timestamp,
        is_busy: impl Fn(&str) -> bool,
    ) -> Vec<ObjectPlan> {
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
        let mut scope = std::mem::take(&mut self.due);
        scope.add_dependents(cache.dependents());
        scope.retain(|uid| !is_busy(uid));
        let mut plan = plan(cache, &scope, &self.images, now);
        self.replan_at.extend(std::mem::take(&mut plan.replan_at));
        let refused = std::mem::take(&mut plan.refused);
        let objects = plan.into_objects();
        // A controller that is still busy reports later that the cluster is full.
        let has_actions = |uid: &str| {
            let mut objects = objects.iter();
            objects.any(|object| object.uid == uid && !object.actions.is_empty())
        };
        self.refused.extend(refused.into_iter().filter(|owner| {
            let uid = owner.uid.as_deref().unwrap_or_default();
            !has_actions(uid) && !is_busy(uid)
        }));
        objects
    }

    /// Returns the controllers that cannot create pods, because the cluster is full.
    pub(crate) fn take_refused(&mut self) -> Vec<ObjectReference> {
        std::mem::take(&mut self.refused)
    }

    /// Adds an object to the next planning.
    pub(crate) fn add(&mut self, uid: String) {
        self.due.add(uid);
    }

    /// Adds an object to the planning at a time.
    pub(crate) fn add_at(&mut self, at: jiff::Timestamp, uid: String) {
        self.replan_at.insert((at, uid));
    }

    /// Returns the time of the next planning that happens without a change of an object.
    pub(crate) fn next_time(&self) -> Option<jiff::Timestamp> {
        self.replan_at.first().map(|(at, _)| *at)
    }
}
