//! The tracker of unhealthy applications. It records since when an application has been unhealthy in a cluster, and
//! decides when the application must be evicted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_api::binding::ResourceHealth;

use super::report::Reports;

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
    /// Records the health of a binding, and returns the decision. Unknown health counts as a recovery. The health in a
    /// member that is not ready is unknown. In a member that has just become ready, the application is evicted only
    /// when the report counts.
    pub(super) fn observe(&mut self, reports: &Reports<'_>, now: Instant) -> Verdict {
        let binding = reports.binding;
        let policy = binding.body.spec.failover.as_ref();
        let policy = policy.and_then(|failover| failover.application.as_ref());
        // As in Karmada, application failover needs `propagateDeps`.
        let Some(policy) =
            policy.filter(|_| binding.body.spec.propagate_deps && !binding.body.deleting())
        else {
            self.forget(&binding.body.key);
            return Verdict::default();
        };
        let tolerated = policy.decision_conditions.toleration_seconds;
        let tolerated = tolerated
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(DEFAULT_TOLERATION, Duration::from_secs);
        let mut since = self.0.remove(&binding.body.key).unwrap_or_default();
        since.retain(|cluster, _| is_unhealthy(reports, cluster));
        let mut verdict = Verdict::default();
        for target in &binding.body.spec.clusters {
            let counts_from = reports.counts_from(&target.name);
            let Some(counts_from) = counts_from.filter(|_| is_unhealthy(reports, &target.name))
            else {
                continue;
            };
            let begin = *since.entry(target.name.clone()).or_insert(now);
            let end = (begin + tolerated).max(counts_from);
            if now > end {
                verdict.evict_from.push(target.name.clone());
            } else {
                verdict.next = Some(verdict.next.map_or(end, |next| next.min(end)));
            }
        }
        if !since.is_empty() {
            self.0.insert(binding.body.key.clone(), since);
        }
        verdict
    }

    /// Removes the times of a binding.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }
}

fn is_unhealthy(reports: &Reports<'_>, cluster: &str) -> bool {
    let binding = reports.binding;
    reports.is_ready(cluster)
        && binding.is_placed_on(cluster)
        && !binding.has_task_for(cluster)
        && binding.health_in(cluster) == Some(&ResourceHealth::Unhealthy)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::binding::BindingRecord;
    use super::super::graceful_eviction::tests::binding_with;
    use super::super::report::tests::clusters;
    use super::*;

    fn observe(tracker: &mut UnhealthyTracker, binding: &BindingRecord, now: Instant) -> Verdict {
        let clusters = clusters(&[("m1", true)], now);
        tracker.observe(&Reports::new(binding, &clusters, now), now)
    }

    fn binding(health: &str) -> BindingRecord {
        with(health, true, &json!({}))
    }

    fn with(health: &str, propagate_deps: bool, spec: &Value) -> BindingRecord {
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
            observe(&mut tracker, &binding, now).evict_from
        };
        assert!(at(0, binding("Unhealthy")).is_empty());
        assert!(at(10, binding("Unhealthy")).is_empty());
        assert_eq!(at(11, binding("Unhealthy")), ["m1"]);
    }

    #[test]
    fn a_recovery_or_unknown_health_restarts_the_toleration_time() {
        for between in ["Healthy", "Unknown"] {
            let (mut tracker, start) = (UnhealthyTracker::default(), Instant::now());
            observe(&mut tracker, &binding("Unhealthy"), start);
            observe(
                &mut tracker,
                &binding(between),
                start + Duration::from_secs(5),
            );
            let again = start + Duration::from_secs(11);
            let verdict = observe(&mut tracker, &binding("Unhealthy"), again);
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
            observe(&mut tracker, &binding, start);
            let later = start + Duration::from_mins(1);
            let verdict = observe(&mut tracker, &binding, later);
            assert_eq!(verdict, Verdict::default(), "{about}");
        }
    }

    #[test]
    fn the_health_in_a_member_that_is_not_ready_is_unknown() {
        let (mut tracker, start) = (UnhealthyTracker::default(), Instant::now());
        let unhealthy = binding("Unhealthy");
        let mut at = |seconds, is_ready, ready_since: Option<u64>| {
            let now = start + Duration::from_secs(seconds);
            let mut clusters = clusters(&[("m1", is_ready)], start);
            if let Some(since) = ready_since {
                let record = clusters.get_mut("m1").unwrap();
                record.ready_since = Some(start + Duration::from_secs(since));
            }
            tracker.observe(&Reports::new(&unhealthy, &clusters, now), now)
        };
        at(0, true, None);
        assert_eq!(at(11, false, None), Verdict::default());
        let next = start + Duration::from_secs(80);
        let expected = Verdict {
            evict_from: Vec::new(),
            next: Some(next),
        };
        assert_eq!(at(20, true, Some(20)), expected, "the report may be old");
        assert_eq!(at(31, true, Some(20)), expected, "the report may be old");
        assert_eq!(at(81, true, Some(20)).evict_from, ["m1"]);
    }
}
