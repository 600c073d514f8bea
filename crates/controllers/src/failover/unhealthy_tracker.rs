//! The tracker of unhealthy applications. It records since when an application has been unhealthy in a cluster, and
//! decides when the application must be evicted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::binding::ResourceHealth;

use super::binding::Binding;
use crate::binding_key::BindingKey;

/// The default time for which an unhealthy application is tolerated.
const DEFAULT_TOLERATION: Duration = Duration::from_mins(5);

/// The times at which bindings became unhealthy, by binding and cluster. The times are stored in memory only, so the
/// measurement starts again after a restart.
#[derive(Debug, Default)]
pub(super) struct UnhealthyTracker(HashMap<BindingKey, HashMap<String, Instant>>);

/// The decision about an unhealthy binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The clusters from which the binding must be evicted.
    pub evict_from: Vec<String>,
    /// The time of the next eviction if the binding stays unhealthy.
    pub next: Option<Instant>,
}

impl UnhealthyTracker {
    /// Records the health of a binding, and returns the decision. Unknown health counts as a recovery.
    pub(super) fn observe(&mut self, binding: &Binding, now: Instant) -> Verdict {
        let policy = binding.spec.failover.as_ref();
        let policy = policy.and_then(|failover| failover.application.as_ref());
        // As in Karmada, application failover needs `propagateDeps`.
        let Some(policy) = policy.filter(|_| binding.spec.propagate_deps && !binding.deleting)
        else {
            self.forget(&binding.key);
            return Verdict::default();
        };
        let tolerated = policy.decision_conditions.toleration_seconds;
        let tolerated = tolerated
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(DEFAULT_TOLERATION, Duration::from_secs);
        let mut since = self.0.remove(&binding.key).unwrap_or_default();
        since.retain(|cluster, _| is_unhealthy(binding, cluster));
        let mut verdict = Verdict::default();
        for target in &binding.spec.clusters {
            if !is_unhealthy(binding, &target.name) {
                continue;
            }
            let begin = *since.entry(target.name.clone()).or_insert(now);
            let end = begin + tolerated;
            if now > end {
                verdict.evict_from.push(target.name.clone());
            } else {
                verdict.next = Some(verdict.next.map_or(end, |next| next.min(end)));
            }
        }
        if !since.is_empty() {
            self.0.insert(binding.key.clone(), since);
        }
        verdict
    }

    /// Removes the times of a binding.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }
}

fn is_unhealthy(binding: &Binding, cluster: &str) -> bool {
    binding.is_placed_on(cluster)
        && !binding.has_task_for(cluster)
        && binding.health_in(cluster) == Some(&ResourceHealth::Unhealthy)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::graceful_eviction::tests::binding_with;
    use super::*;

    fn binding(health: &str) -> Binding {
        with(health, true, &json!({}))
    }

    fn with(health: &str, propagate_deps: bool, spec: &Value) -> Binding {
        let mut whole = json!({
            "clusters": [{ "name": "m1" }], "propagateDeps": propagate_deps,
            "failover": { "application": { "decisionConditions": { "tolerationSeconds": 10 } } } });
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        binding_with(
            &whole,
            &json!({ "aggregatedStatus": [{ "clusterName": "m1", "health": health }] }),
        )
    }

    #[test]
    fn an_application_that_is_unhealthy_for_too_long_is_evicted() {
        let (mut tracker, start) = (UnhealthyTracker::default(), Instant::now());
        let mut at = |seconds, binding| {
            let now = start + Duration::from_secs(seconds);
            tracker.observe(&binding, now).evict_from
        };
        assert!(at(0, binding("Unhealthy")).is_empty());
        assert!(at(10, binding("Unhealthy")).is_empty());
        assert_eq!(at(11, binding("Unhealthy")), ["m1"]);
    }

    #[test]
    fn a_recovery_or_unknown_health_restarts_the_toleration_time() {
        for between in ["Healthy", "Unknown"] {
            let (mut tracker, start) = (UnhealthyTracker::default(), Instant::now());
            tracker.observe(&binding("Unhealthy"), start);
            tracker.observe(&binding(between), start + Duration::from_secs(5));
            let again = start + Duration::from_secs(11);
            let verdict = tracker.observe(&binding("Unhealthy"), again);
            assert_eq!(verdict.evict_from, [""; 0], "{between}");
            assert_eq!(verdict.next, Some(again + Duration::from_secs(10)));
        }
    }

    #[test]
    fn no_binding_is_evicted_twice_or_without_a_policy() {
        let task = json!({ "fromCluster": "m1", "reason": "r", "producer": "p" });
        for (about, binding) in [
            (
                "has a task",
                with(
                    "Unhealthy",
                    true,
                    &json!({ "gracefulEvictionTasks": [task] }),
                ),
            ),
            (
                "not placed",
                with("Unhealthy", true, &json!({ "clusters": [] })),
            ),
            ("no dependencies", with("Unhealthy", false, &json!({}))),
            (
                "no policy",
                with("Unhealthy", true, &json!({ "failover": {} })),
            ),
        ] {
            let (mut tracker, start) = (UnhealthyTracker::default(), Instant::now());
            tracker.observe(&binding, start);
            let verdict = tracker.observe(&binding, start + Duration::from_mins(1));
            assert_eq!(verdict, Verdict::default(), "{about}");
        }
    }
}
