//! Metrics of the estimator client.

use std::time::Duration;

use berth_metrics::{ConstGauge, Counter, Histogram, Registry, Series};

use super::answers::{Answer, NoAnswer, NoAnswerKind};
use super::connection_pool::ConnectionCounts;

/// Upper bounds of the call durations, in seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 4.096,
];

const KINDS: [(NoAnswerKind, &str); 6] = [
    (NoAnswerKind::UnknownCluster, "not_followed"),
    (NoAnswerKind::NoConnection, "no_connection"),
    (NoAnswerKind::Timeout, "timeout"),
    (NoAnswerKind::Unimplemented, "unimplemented"),
    (NoAnswerKind::Failed, "failed"),
    (NoAnswerKind::NoEstimate, "no_opinion"),
];

/// Counters of the estimator client. No label names a cluster, so the number of series does not grow with the fleet.
#[derive(Debug)]
pub(super) struct EstimatorMetrics {
    fresh: Counter,
    stale: Counter,
    missing: Counter,
    failures: [Counter; KINDS.len()],
    calls: Histogram,
}

impl Default for EstimatorMetrics {
    fn default() -> Self {
        Self {
            fresh: Counter::default(),
            stale: Counter::default(),
            missing: Counter::default(),
            failures: std::array::from_fn(|_| Counter::default()),
            calls: Histogram::new(BUCKETS),
        }
    }
}

impl EstimatorMetrics {
    /// Counts an answer.
    pub(super) fn answer(&self, answer: &Answer) {
        let (counter, reason): (_, Option<&NoAnswer>) = match answer {
            Answer::Fresh(_) => (&self.fresh, None),
            Answer::Stale { reason, .. } => (&self.stale, Some(reason)),
            Answer::Missing(reason) => (&self.missing, Some(reason)),
        };
        counter.inc();
        if let Some(kind) = reason.map(NoAnswer::kind) {
            for ((counted, _), counter) in KINDS.iter().zip(&self.failures) {
                if *counted == kind {
                    counter.inc();
                }
            }
        }
    }

    /// Counts a call.
    pub(super) fn call(&self, duration: Duration) {
        self.calls.observe(duration.as_secs_f64());
    }

    /// Registers all metrics.
    pub(super) fn register(&self, registry: &mut Registry, connections: ConnectionCounts) {
        let answers = [
            ("fresh", &self.fresh),
            ("stale", &self.stale),
            ("missing", &self.missing),
        ];
        registry.register(
            "berth_scheduler_estimator_answers_total",
            "Answers of estimators: fresh, stale (an earlier answer is used) or missing.",
            Series::new(answers.map(|(result, count)| ([("result", result)], count.clone()))),
        );
        let failures = KINDS.iter().zip(&self.failures);
        registry.register(
            "berth_scheduler_estimator_failures_total",
            "Requests to estimators without a fresh answer, by reason.",
            Series::new(
                failures.map(|((_, reason), count)| ([("reason", *reason)], count.clone())),
            ),
        );
        let connections = [
            ("up", connections.up),
            ("down", connections.down),
            ("trying", connections.connecting),
        ];
        registry.register(
            "berth_scheduler_estimator_connections",
            "Connections to estimators, by state.",
            Series::new(
                connections.map(|(state, count)| ([("state", state)], ConstGauge::new(count))),
            ),
        );
        registry.register(
            "berth_scheduler_estimator_call_duration_seconds",
            "Time of calls to estimators, in seconds.",
            self.calls.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn answers_failures_connections_and_durations_are_exposed() {
        let metrics = EstimatorMetrics::default();
        let reason = NoAnswer::NoConnection {
            cluster: "m1".into(),
            reason: Some("refused".into()),
        };
        metrics.answer(&Answer::Fresh(3));
        metrics.answer(&Answer::Missing(reason.clone()));
        metrics.answer(&Answer::Stale {
            value: 1,
            age: Duration::ZERO,
            reason,
        });
        metrics.call(Duration::from_millis(3));
        let counts = ConnectionCounts {
            up: 2,
            down: 1,
            connecting: 0,
        };
        let text = Format::Text.render(|registry| metrics.register(registry, counts));
        for expected in [
            r#"berth_scheduler_estimator_answers_total{result="fresh"} 1"#,
            r#"berth_scheduler_estimator_answers_total{result="stale"} 1"#,
            r#"berth_scheduler_estimator_answers_total{result="missing"} 1"#,
            r#"berth_scheduler_estimator_failures_total{reason="no_connection"} 2"#,
            r#"berth_scheduler_estimator_failures_total{reason="timeout"} 0"#,
            r#"berth_scheduler_estimator_connections{state="up"} 2"#,
            r#"berth_scheduler_estimator_call_duration_seconds_bucket{le="0.002"} 0"#,
            r#"berth_scheduler_estimator_call_duration_seconds_bucket{le="0.004"} 1"#,
            r#"berth_scheduler_estimator_call_duration_seconds_bucket{le="+Inf"} 1"#,
            "berth_scheduler_estimator_call_duration_seconds_sum 0.003",
            "berth_scheduler_estimator_call_duration_seconds_count 1",
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected}\nis missing in\n{text}"
            );
        }
    }
}
