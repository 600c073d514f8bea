//! The result of planning: the actions that are due now for each object, and the times to plan objects again.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::action::Action;

/// Placeholder for the UID of an object in the plan of the pod scheduler.
pub(crate) const SCHEDULER: &str = "the pod scheduler";

/// The actions that a controller plans for one object. They are executed one after the other.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ObjectPlan {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    /// The generation of the object, which grows with each change of its spec.
    pub(crate) generation: Option<i64>,
    pub(crate) actions: Vec<Action>,
}

/// The actions due now, and the times at which objects must be planned again.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    objects: Vec<ObjectPlan>,
    /// The index of each object in `objects`, by UID.
    indexes: HashMap<String, usize>,
    /// The UIDs of the objects to plan again, with the times.
    pub(crate) replan_at: Vec<(jiff::Timestamp, String)>,
    /// The controllers that cannot create pods, because the cluster is full.
    pub(crate) refused: Vec<ObjectReference>,
}

impl Plan {
    /// Returns the actions for an object, to which a controller appends.
    pub(crate) fn of(&mut self, object: &ObjectMeta) -> &mut Vec<Action> {
        let plan = self.of_uid(object.uid.as_deref().unwrap_or_default());
        if plan.namespace.is_empty() {
            plan.namespace = object.namespace.clone().unwrap_or_default();
            plan.generation = object.generation;
        }
        &mut plan.actions
    }

    /// Returns the actions of the pod scheduler. They are executed one after the other, so that each planning knows the
    /// free capacity of the nodes.
    pub(crate) fn of_scheduler(&mut self) -> &mut Vec<Action> {
        &mut self.of_uid(SCHEDULER).actions
    }

    fn of_uid(&mut self, uid: &str) -> &mut ObjectPlan {
        let index = if let Some(index) = self.indexes.get(uid) {
            *index
        } else {
            let index = self.objects.len();
            self.indexes.insert(uid.to_owned(), index);
            self.objects.push(ObjectPlan {
                uid: uid.to_owned(),
                ..ObjectPlan::default()
            });
            index
        };
        &mut self.objects[index]
    }

    /// Returns the plans of all planned objects. The actions of an object are empty if nothing is due.
    pub(crate) fn into_objects(self) -> Vec<ObjectPlan> {
        self.objects
    }

    /// Requests another planning of an object at the time `start + after`.
    pub(crate) fn replan_after(&mut self, uid: String, start: jiff::Timestamp, after: Duration) {
        let at = start.saturating_add(after).unwrap_or(jiff::Timestamp::MAX);
        self.replan_at.push((at, uid));
    }
}
