//! Recognition of another scheduler's writes in the states of a binding.
//!
//! A scheduler writes a decision in two requests: first the clusters and the annotation, then the status. The basis of
//! the decision is the state of the binding before both writes.

use std::sync::Arc;
use std::time::Instant;

use berth_api::binding::BindingStatus;
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_api::{Binding, condition};

use super::prediction::Prediction;

/// A binding, with the basis of its next decision.
#[derive(Debug)]
pub(super) struct ObservedBinding {
    /// The state of the binding for which the other scheduler makes its next decision.
    basis: Arc<Binding>,
    latest: Arc<Binding>,
    /// Time at which the watch reported the basis.
    pub(super) since: Instant,
    /// This scheduler's decision about the basis, or `None` if the basis needs no decision.
    pub(super) predicted: Option<Prediction>,
}

/// The meaning of a new state of a binding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// The state is the basis of the next decision.
    NewBasis,
    /// The state contains the first of the two writes of a decision.
    ResultOnly,
    /// The state contains the complete decision, including its status.
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

    /// Returns the meaning of a newer state.
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

/// Reports whether a scheduler wrote the difference between two statuses. Every status that a scheduler writes contains
/// the condition `Scheduled`.
fn status_of_decision_differs(old: &BindingStatus, new: &BindingStatus) -> bool {
    if condition::scheduled(&new.conditions).is_none() {
        return false;
    }
    old.last_scheduled_time != new.last_scheduled_time
        || old.scheduler_observed_generation != new.scheduler_observed_generation
        || condition::scheduled(&old.conditions) != condition::scheduled(&new.conditions)
}

/// Reports whether a scheduler wrote the difference between two states. Controllers also remove clusters, but they add
/// an eviction task at the same time.
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
        // A controller's write between the two writes of the scheduler does not change the basis.
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
