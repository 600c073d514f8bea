//! Failed actions: the times of the next attempts, and the refusals that the status of an object reports.
//!
//! As with the work queues of Kubernetes' controllers, the pause before the next attempt doubles with each failure of the
//! same object. A change of its spec ends the pause.

use std::time::Duration;

use kube::Resource;

use crate::action::Action;
use crate::plan::{ObjectPlan, SCHEDULER};
use crate::retries::{Refusal, Retries, Retry};

/// Pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Number of stored objects at which objects without a waiting attempt are removed.
const MAX_OBJECTS: usize = 10_000;

impl Retries {
    /// Records a failure.
    pub(crate) fn failed(
        &mut self,
        object: &ObjectPlan,
        is_of_status: bool,
        refusal: Option<Refusal>,
        now: jiff::Timestamp,
    ) {
        let before = self.0.remove(&object.uid);
        let attempts = match &before {
            // A pod that cannot be bound must not delay the other pods.
            Some(before) if object.uid != SCHEDULER => before.attempts + 1,
            _ => 1,
        };
        let pause = FIRST_PAUSE
            .saturating_mul(2_u32.saturating_pow(attempts - 1))
            .min(LONGEST_PAUSE);
        let at = now.saturating_add(pause).unwrap_or(now);
        let retry = Retry {
            attempts,
            at,
            generation: object.generation,
            refusal: refusal.or_else(|| before?.refusal),
            is_of_status,
        };
        if self.0.len() >= MAX_OBJECTS {
            // Most of these objects are deleted.
            self.0.retain(|_, retry| retry.at > now);
        }
        self.0.insert(object.uid.clone(), retry);
    }

    /// Removes the actions that must wait. Returns the time of the next attempt if there are such actions.
    pub(crate) fn hold_back(
        &mut self,
        object: &mut ObjectPlan,
        now: jiff::Timestamp,
    ) -> Option<jiff::Timestamp> {
        let retry = self.0.get_mut(&object.uid)?;
        if object.actions.is_empty() {
            self.0.remove(&object.uid);
            return None;
        }
        if object.actions.iter().all(Action::is_status) {
            retry.refusal = None;
        }
        if retry.at <= now || retry.generation != object.generation {
            return None;
        }
        let count = object.actions.len();
        let is_of_status = retry.is_of_status;
        object
            .actions
            .retain(|action| !is_of_status && action.is_status());
        (object.actions.len() < count).then_some(retry.at)
    }

    /// Returns the refusal of the last attempt to create or delete an object. `actions` are the planned actions of the
    /// owner; without a creation or deletion, nothing is refused any more.
    pub(crate) fn refusal<K: Resource>(&self, owner: &K, actions: &[Action]) -> Option<&Refusal> {
        let retry = self.0.get(owner.meta().uid.as_deref()?)?;
        let wants = actions.iter().any(|action| !action.is_status());
        retry.refusal.as_ref().filter(|_| wants)
    }
}
