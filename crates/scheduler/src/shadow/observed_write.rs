//! Recognition of another scheduler's writes in the states of a binding.
//!
//! Schedulers write a decision in two requests: clusters and annotation first, then the status. The state before both
//! is what the decision was made for.

use std::sync::Arc;
use std::time::Instant;

use berth_api::binding::BindingStatus;
use berth_api::well_known::APPLIED_PLACEMENT;

use super::prediction::Prediction;
use crate::binding::Binding;
use crate::rules::condition::stored;

/// A binding between two decisions.
#[derive(Debug)]
pub(super) struct ObservedBinding {
    /// The state that the next decision is made for.
    basis: Arc<Binding>,
    latest: Arc<Binding>,
    /// Time at which the basis was seen.
    pub(super) since: Instant,
    /// The own decision about the basis; `None` if it needs none.
    pub(super) predicted: Option<Prediction>,
}

/// The meaning of a new state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// The next decision is made for this state.
    NewBasis,
    /// The first of the two writes of a decision.
    ResultOnly,
    /// A decision is complete.
    Decided,
}

impl ObservedBinding {
    pub(super) fn new(binding: Arc<Binding>, now: Instant) -> Self {
        Self {
            basis: Arc::clone(&binding),
            latest: binding,
            since: now,
            predicted: None,
        }
    }

    pub(super) fn basis(&self) -> &Arc<Binding> {
        &self.basis
    }

    pub(super) fn latest(&self) -> &Arc<Binding> {
        &self.latest
    }

    /// Reports what a newer state means.
    pub(super) fn observe(&self, new: &Binding) -> Observation {
        if status_of_decision_differs(&self.latest.status, &new.status) {
            return Observation::Decided;
        }
        let is_result_pending = !Arc::ptr_eq(&self.basis, &self.latest);
        if is_result_pending || is_result(&self.latest, new) {
            Observation::ResultOnly
        } else {
            Observation::NewBasis
        }
    }

    /// Stores a newer state.
    pub(super) fn replace(&mut self, new: Arc<Binding>, observation: &Observation, now: Instant) {
        if *observation != Observation::ResultOnly {
            self.basis = Arc::clone(&new);
            self.since = now;
            self.predicted = None;
        }
        self.latest = new;
    }
}

/// Reports whether a scheduler wrote the difference. Each of its status writes sets the condition, or keeps it.
fn status_of_decision_differs(old: &BindingStatus, new: &BindingStatus) -> bool {
    if stored(new).is_none() {
        return false;
    }
    old.last_scheduled_time != new.last_scheduled_time
        || old.scheduler_observed_generation != new.scheduler_observed_generation
        || stored(old) != stored(new)
}

/// Reports whether a scheduler wrote the difference. Controllers remove clusters too, but with an eviction task.
fn is_result(old: &Binding, new: &Binding) -> bool {
    old.annotation(APPLIED_PLACEMENT) != new.annotation(APPLIED_PLACEMENT)
        || (old.spec.clusters != new.spec.clusters
            && old.spec.graceful_eviction_tasks == new.spec.graceful_eviction_tasks)
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(change: impl FnOnce(&mut Value)) -> Arc<Binding> {
        let mut object = json!({
            "metadata": { "name": "b", "namespace": "n" },
            "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "b" } },
            "status": {},
        });
        change(&mut object);
        let object: ResourceBinding = serde_json::from_value(object).unwrap();
        Arc::new(object.into())
    }

    fn clusters(object: &mut Value) {
        object["spec"]["clusters"] = json!([{ "name": "m1" }]);
    }

    fn observed(binding: &Binding) -> Observation {
        ObservedBinding::new(self::binding(|_| {}), Instant::now()).observe(binding)
    }

    #[test]
    fn the_writes_of_a_scheduler_differ_from_those_of_controllers() {
        assert_eq!(observed(&binding(clusters)), Observation::ResultOnly);
        let evicted = binding(|object| {
            clusters(object);
            object["spec"]["gracefulEvictionTasks"] =
                json!([{ "fromCluster": "m2", "producer": "p", "reason": "r" }]);
        });
        assert_eq!(observed(&evicted), Observation::NewBasis);
        let replicas = binding(|object| object["spec"]["replicas"] = json!(3));
        assert_eq!(observed(&replicas), Observation::NewBasis);
        let failed = binding(|object| {
            object["status"]["conditions"] = json!([{ "type": "Scheduled", "status": "False",
                "reason": "NoClusterFit", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        });
        assert_eq!(observed(&failed), Observation::Decided);
    }

    #[test]
    fn the_basis_stays_until_the_status_is_written() {
        let now = Instant::now();
        let mut observed = ObservedBinding::new(binding(|_| {}), now);
        let result = binding(clusters);
        let observation = observed.observe(&result);
        observed.replace(result, &observation, now);
        assert!(observed.basis().spec.clusters.is_empty());
        // A controller's write between the two does not change what was decided about.
        let both = binding(|object| {
            clusters(object);
            object["spec"]["replicas"] = json!(3);
        });
        assert_eq!(observed.observe(&both), Observation::ResultOnly);
        let status = binding(|object| {
            clusters(object);
            object["status"] = json!({ "schedulerObservedGeneration": 2, "conditions": [
                { "type": "Scheduled", "status": "True", "reason": "Success", "message": "m",
                  "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        });
        assert_eq!(observed.observe(&status), Observation::Decided);
        observed.replace(status, &Observation::Decided, now);
        assert_eq!(observed.basis().spec.clusters.len(), 1);
    }
}
