//! The number of bindings by health. A health may change by the passage of time alone, so the bindings are counted when a
//! client reads the metrics.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use berth_api::{Binding, BindingKey};
use berth_diagnosis::{ClusterState, Health, HealthCounts, Later, WorkloadRow};
use berth_metrics::{ConstGauge, Registry, Series};
use jiff::{SignedDuration, Timestamp};

/// The health of a binding from a time on, until the binding or one of its clusters changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthTimeline {
    now: Health,
    /// The changes by the passage of time, in order. Most bindings have none.
    later: Vec<Later>,
}

impl HealthTimeline {
    /// Diagnoses a binding, as the lists of workloads do.
    pub(crate) fn of(
        binding: &Binding,
        clusters: &dyn Fn(&str) -> ClusterState,
        now: Timestamp,
    ) -> Self {
        let mut row = WorkloadRow::of(binding, clusters, now);
        let mut timeline = Self {
            now: row.health,
            later: Vec::new(),
        };
        while let Some(later) = row.later {
            timeline.later.push(later);
            row = WorkloadRow::of(binding, clusters, later.at + SignedDuration::from_secs(1));
        }
        timeline
    }

    fn at(&self, now: Timestamp) -> Health {
        let past = self.later.iter().take_while(|later| later.at <= now);
        past.last().map_or(self.now, |later| later.health)
    }
}

/// The timelines of all bindings. `None` before the first bindings are diagnosed, for example in a standby.
#[derive(Debug, Default)]
pub(super) struct BindingHealth(Mutex<Option<HashMap<BindingKey, HealthTimeline>>>);

impl BindingHealth {
    /// Replaces all bindings.
    pub(super) fn replace(&self, all: HashMap<BindingKey, HealthTimeline>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
    }

    /// Stores a binding.
    pub(super) fn insert(&self, key: &BindingKey, timeline: HealthTimeline) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        match known.get_mut(key) {
            Some(stored) => *stored = timeline,
            None => {
                known.insert(key.clone(), timeline);
            }
        }
    }

    /// Removes a binding.
    pub(super) fn remove(&self, key: &BindingKey) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &mut *known {
            known.remove(key);
        }
    }

    fn counts(&self, now: Timestamp) -> Option<HealthCounts> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = HealthCounts::default();
        for timeline in known.as_ref()?.values() {
            counts.add(timeline.at(now));
        }
        Some(counts)
    }

    /// Registers the gauge of the bindings by health.
    pub(super) fn register(&self, registry: &mut Registry, now: Timestamp) {
        let counts = self.counts(now).into_iter();
        let series = counts.flat_map(|counts| {
            // Alerts need the samples that are 0.
            Health::WORST_FIRST.map(|health| {
                let gauge = ConstGauge::new(counts.of(health));
                ([("health", health.as_str())], gauge)
            })
        });
        registry.register(
            "berth_bindings",
            "Bindings by health, as berth status -A counts them.",
            Series::new(series),
        );
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    const CREATED: &str = "2026-05-01T10:00:00Z";

    fn binding(name: &str, spec: &Value, status: &Value) -> Binding {
        let mut object = json!({
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": CREATED },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name },
                "replicas": 2, "placement": {} },
            "status": status,
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        serde_json::from_value::<ResourceBinding>(object)
            .unwrap()
            .into()
    }

    /// Returns the status of a workload that was placed in m1 when it was created.
    fn placed(ready: i64) -> Value {
        let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
        let condition = |kind: &str| {
            json!({ "type": kind, "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": CREATED })
        };
        json!({ "lastScheduledTime": CREATED,
            "aggregatedStatus": [{ "clusterName": "m1", "applied": true, "health": health,
                "status": { "replicas": 2, "readyReplicas": ready } }],
            "conditions": [condition("Scheduled"), condition("FullyApplied")] })
    }

    fn after(seconds: i64) -> Timestamp {
        CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn bindings_are_counted_with_the_health_of_the_present_time() {
        let all = BindingHealth::default();
        assert_eq!(all.counts(after(0)), None);
        all.replace(HashMap::new());
        assert_eq!(all.counts(after(0)), Some(HealthCounts::default()));
        let in_m1 = json!({ "clusters": [{ "name": "m1", "replicas": 2 }] });
        let unscheduled = binding("unscheduled", &json!({}), &json!({}));
        let bindings = [
            binding("well", &in_m1, &placed(2)),
            binding("degraded", &in_m1, &placed(1)),
            binding("broken", &in_m1, &placed(0)),
            unscheduled.clone(),
        ];
        let ready = |_: &str| ClusterState::Ready;
        for binding in &bindings {
            let timeline = HealthTimeline::of(binding, &ready, after(1));
            all.insert(&binding.key, timeline);
        }
        for (seconds, expected) in [
            (1, "3 waiting, 1 well"),
            (29, "3 waiting, 1 well"),
            (30, "1 stuck, 2 waiting, 1 well"),
            (119, "1 stuck, 2 waiting, 1 well"),
            (120, "1 broken, 1 stuck, 1 degraded, 1 well"),
        ] {
            let counts = all.counts(after(seconds)).unwrap();
            assert_eq!(counts.to_string(), expected, "after {seconds} s");
            // The lists of workloads agree.
            let rows = bindings.iter();
            let rows = rows.map(|of| WorkloadRow::of(of, &ready, after(seconds)).health);
            let mut listed = HealthCounts::default();
            rows.for_each(|health| listed.add(health));
            assert_eq!(counts, listed, "after {seconds} s");
        }
        all.remove(&unscheduled.key);
        let counts = all.counts(after(600)).unwrap();
        assert_eq!(counts.to_string(), "1 broken, 1 degraded, 1 well");
    }
}
