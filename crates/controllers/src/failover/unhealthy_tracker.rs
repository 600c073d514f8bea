//! For how long applications have been sick, and which of them are to leave.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::binding::ResourceHealth;

use super::binding::Bound;
use crate::binding_key::BindingKey;

/// How long a sick application is tolerated where its policy does not say.
const TOLERATED: Duration = Duration::from_mins(5);

/// Since when which binding is sick in which cluster. It is kept in memory: after a restart the time begins again.
#[derive(Debug, Default)]
pub struct Sickness(HashMap<BindingKey, HashMap<String, Instant>>);

/// What follows for a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The clusters that it has to leave.
    pub leaves: Vec<String>,
    /// When the next one is due.
    pub next: Option<Instant>,
}

impl Sickness {
    /// Notes how a binding is, and says what follows. Health that is not known ends a sickness.
    pub fn observe(&mut self, binding: &Bound, now: Instant) -> Verdict {
        let policy = binding.spec.failover.as_ref();
        let policy = policy.and_then(|failover| failover.application.as_ref());
        // As in Karmada, what it depends on has to follow it.
        let Some(policy) = policy.filter(|_| binding.spec.propagate_deps && !binding.deleting)
        else {
            self.forget(&binding.key);
            return Verdict::default();
        };
        let tolerated = policy.decision_conditions.toleration_seconds;
        let tolerated = tolerated
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(TOLERATED, Duration::from_secs);
        let mut since = self.0.remove(&binding.key).unwrap_or_default();
        since.retain(|cluster, _| is_sick(binding, cluster));
        let mut verdict = Verdict::default();
        for target in &binding.spec.clusters {
            if !is_sick(binding, &target.name) {
                continue;
            }
            let begun = *since.entry(target.name.clone()).or_insert(now);
            let end = begun + tolerated;
            if now > end {
                verdict.leaves.push(target.name.clone());
            } else {
                verdict.next = Some(verdict.next.map_or(end, |next| next.min(end)));
            }
        }
        if !since.is_empty() {
            self.0.insert(binding.key.clone(), since);
        }
        verdict
    }

    /// A binding is gone.
    pub fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }
}

fn is_sick(binding: &Bound, cluster: &str) -> bool {
    binding.is_on(cluster)
        && !binding.is_leaving(cluster)
        && binding.health(cluster) == Some(&ResourceHealth::Unhealthy)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::draining::tests::bound_with;
    use super::*;

    fn seen(health: &str) -> Bound {
        with(health, true, &json!({}))
    }

    fn with(health: &str, propagate_deps: bool, spec: &Value) -> Bound {
        let mut whole = json!({
            "clusters": [{ "name": "m1" }], "propagateDeps": propagate_deps,
            "failover": { "application": { "decisionConditions": { "tolerationSeconds": 10 } } } });
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        bound_with(
            &whole,
            &json!({ "aggregatedStatus": [{ "clusterName": "m1", "health": health }] }),
        )
    }

    #[test]
    fn who_is_sick_for_too_long_leaves() {
        let (mut sickness, start) = (Sickness::default(), Instant::now());
        let mut at = |seconds, binding| {
            let now = start + Duration::from_secs(seconds);
            sickness.observe(&binding, now).leaves
        };
        assert!(at(0, seen("Unhealthy")).is_empty());
        assert!(at(10, seen("Unhealthy")).is_empty());
        assert_eq!(at(11, seen("Unhealthy")), ["m1"]);
    }

    #[test]
    fn who_recovers_or_is_not_seen_begins_anew() {
        for between in ["Healthy", "Unknown"] {
            let (mut sickness, start) = (Sickness::default(), Instant::now());
            sickness.observe(&seen("Unhealthy"), start);
            sickness.observe(&seen(between), start + Duration::from_secs(5));
            let again = start + Duration::from_secs(11);
            let verdict = sickness.observe(&seen("Unhealthy"), again);
            assert_eq!(verdict.leaves, [""; 0], "{between}");
            assert_eq!(verdict.next, Some(again + Duration::from_secs(10)));
        }
    }

    #[test]
    fn nobody_leaves_twice_or_unasked() {
        let task = json!({ "fromCluster": "m1", "reason": "r", "producer": "p" });
        for (about, binding) in [
            (
                "leaving",
                with(
                    "Unhealthy",
                    true,
                    &json!({ "gracefulEvictionTasks": [task] }),
                ),
            ),
            (
                "not there",
                with("Unhealthy", true, &json!({ "clusters": [] })),
            ),
            ("no dependencies", with("Unhealthy", false, &json!({}))),
            (
                "no policy",
                with("Unhealthy", true, &json!({ "failover": {} })),
            ),
        ] {
            let (mut sickness, start) = (Sickness::default(), Instant::now());
            sickness.observe(&binding, start);
            let verdict = sickness.observe(&binding, start + Duration::from_mins(1));
            assert_eq!(verdict, Verdict::default(), "{about}");
        }
    }
}
