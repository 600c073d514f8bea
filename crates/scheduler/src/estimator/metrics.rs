//! Metrics of the estimator client, in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::answers::{Answer, NoAnswer, NoAnswerKind};
use super::connection_pool::ConnectionCounts;

/// Upper bounds of the call durations, in milliseconds.
const BUCKETS: [u32; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];

const KINDS: [(NoAnswerKind, &str); 6] = [
    (NoAnswerKind::UnknownCluster, "not_followed"),
    (NoAnswerKind::NoConnection, "no_connection"),
    (NoAnswerKind::Timeout, "timeout"),
    (NoAnswerKind::Unimplemented, "unimplemented"),
    (NoAnswerKind::Failed, "failed"),
    (NoAnswerKind::NoEstimate, "no_opinion"),
];

/// Counters of the estimator client. No label names a cluster, so the number of series does not grow with the fleet.
#[derive(Debug, Default)]
pub(super) struct EstimatorMetrics {
    fresh: AtomicU64,
    stale: AtomicU64,
    missing: AtomicU64,
    failures: [AtomicU64; KINDS.len()],
    buckets: [AtomicU64; BUCKETS.len()],
    calls: AtomicU64,
    microseconds: AtomicU64,
}

impl EstimatorMetrics {
    /// Counts an answer.
    pub(super) fn answer(&self, answer: &Answer) {
        let (counter, reason): (_, Option<&NoAnswer>) = match answer {
            Answer::Fresh(_) => (&self.fresh, None),
            Answer::Stale { reason, .. } => (&self.stale, Some(reason)),
            Answer::Missing(reason) => (&self.missing, Some(reason)),
        };
        counter.fetch_add(1, Relaxed);
        if let Some(kind) = reason.map(NoAnswer::kind) {
            for ((counted, _), counter) in KINDS.iter().zip(&self.failures) {
                if *counted == kind {
                    counter.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Counts a call.
    pub(super) fn call(&self, duration: Duration) {
        for (bound, counter) in BUCKETS.iter().zip(&self.buckets) {
            if duration <= Duration::from_millis(u64::from(*bound)) {
                counter.fetch_add(1, Relaxed);
            }
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(micros, Relaxed);
        self.calls.fetch_add(1, Relaxed);
    }

    /// Renders all metrics in the Prometheus text format 0.0.4. The results of writes are ignored, because a write to a
    /// String cannot fail.
    pub(super) fn text(&self, connections: ConnectionCounts) -> String {
        let mut out = String::with_capacity(2048);
        let name = "berth_scheduler_estimator_answers_total";
        head(
            &mut out,
            name,
            "counter",
            "Answers of estimators: fresh, stale (an earlier answer is used) or missing.",
        );
        for (result, counter) in [
            ("fresh", &self.fresh),
            ("stale", &self.stale),
            ("missing", &self.missing),
        ] {
            let count = counter.load(Relaxed);
            let _ = writeln!(out, "{name}{{result=\"{result}\"}} {count}");
        }
        let name = "berth_scheduler_estimator_failures_total";
        head(
            &mut out,
            name,
            "counter",
            "Requests to estimators without a fresh answer, by reason.",
        );
        for ((_, reason), counter) in KINDS.iter().zip(&self.failures) {
            let count = counter.load(Relaxed);
            let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {count}");
        }
        let name = "berth_scheduler_estimator_connections";
        head(
            &mut out,
            name,
            "gauge",
            "Connections to estimators, by state.",
        );
        for (state, count) in [
            ("up", connections.up),
            ("down", connections.down),
            ("trying", connections.connecting),
        ] {
            let _ = writeln!(out, "{name}{{state=\"{state}\"}} {count}");
        }
        let name = "berth_scheduler_estimator_call_duration_seconds";
        head(
            &mut out,
            name,
            "histogram",
            "Time of calls to estimators, in seconds.",
        );
        let calls = self.calls.load(Relaxed);
        for (bound, counter) in BUCKETS.iter().zip(&self.buckets) {
            let (seconds, count) = (f64::from(*bound) / 1000.0, counter.load(Relaxed));
            let _ = writeln!(out, "{name}_bucket{{le=\"{seconds}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {calls}");
        let sum = Duration::from_micros(self.microseconds.load(Relaxed)).as_secs_f64();
        let _ = writeln!(out, "{name}_sum {sum}\n{name}_count {calls}");
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
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
        let text = metrics.text(counts);
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
