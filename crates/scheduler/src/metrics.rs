//! Metrics with Karmada's names, labels and buckets, in the Prometheus text format.
//!
//! The encoder is ours because the names must stay what dashboards already query: OpenMetrics encoders
//! rename counters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::need::ScheduleType;
use crate::queue::Depth;

/// Upper bounds in seconds: `start · factor^i` for `count` values of i.
const fn exponential<const COUNT: usize>(start: f64, factor: f64) -> [f64; COUNT] {
    let mut bounds = [start; COUNT];
    let mut index = 1;
    while index < COUNT {
        bounds[index] = bounds[index - 1] * factor;
        index += 1;
    }
    bounds
}

const BUCKETS: usize = 15;
const CYCLE_BUCKETS: [f64; BUCKETS] = exponential(0.001, 2.0);

/// How a cycle ended, as metrics count it. A binding that fits nowhere counts as scheduled, as in Karmada.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CycleResult {
    /// Decided and written.
    Scheduled,
    /// Failed, and to be tried again.
    Error,
}

impl CycleResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Error => "error",
        }
    }
}

/// Why a key came into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Incoming {
    /// A binding is new, or new to us.
    BindingAdd,
    /// The spec of a binding changed.
    BindingUpdate,
    /// An attempt failed.
    ScheduleAttemptFailure,
    /// A cluster changed.
    ClusterChanged,
}

impl Incoming {
    fn as_str(self) -> &'static str {
        match self {
            Self::BindingAdd => "BindingAdd",
            Self::BindingUpdate => "BindingUpdate",
            Self::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            Self::ClusterChanged => "ClusterChanged",
        }
    }
}

#[derive(Clone, Debug)]
struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: f64,
}

impl Histogram {
    const EMPTY: Self = Self {
        counts: [0; BUCKETS],
        count: 0,
        sum: 0.0,
    };

    fn observe(&mut self, seconds: f64) {
        for (bound, count) in CYCLE_BUCKETS.iter().zip(&mut self.counts) {
            if seconds <= *bound {
                *count += 1;
            }
        }
        self.count += 1;
        self.sum += seconds;
    }
}

#[derive(Debug, Default)]
struct Numbers {
    attempts: BTreeMap<(CycleResult, ScheduleType), u64>,
    end_to_end: BTreeMap<(CycleResult, ScheduleType), Histogram>,
    incoming: BTreeMap<Incoming, u64>,
    depth: Depth,
    oldest_ready: Duration,
    leading: bool,
}

/// The numbers of one scheduler. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Numbers>>);

impl Metrics {
    fn with<T>(&self, change: impl FnOnce(&mut Numbers) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a cycle that ended, with the time from taking the key to the last answer of the API server.
    pub fn cycle(&self, result: CycleResult, schedule_type: ScheduleType, duration: Duration) {
        self.with(|numbers| {
            *numbers.attempts.entry((result, schedule_type)).or_default() += 1;
            numbers
                .end_to_end
                .entry((result, schedule_type))
                .or_insert(Histogram::EMPTY)
                .observe(duration.as_secs_f64());
        });
    }

    /// Counts a key that came into the queue.
    pub fn incoming(&self, event: Incoming) {
        self.with(|numbers| *numbers.incoming.entry(event).or_default() += 1);
    }

    /// Tells the depth of the queue and the age of its oldest ready key.
    pub fn queue(&self, depth: Depth, oldest_ready: Duration) {
        self.with(|numbers| {
            numbers.depth = depth;
            numbers.oldest_ready = oldest_ready;
        });
    }

    /// Tells whether this process leads.
    pub fn leading(&self, leading: bool) {
        self.with(|numbers| numbers.leading = leading);
    }

    /// All numbers as Prometheus text, format 0.0.4.
    pub fn text(&self) -> String {
        self.with(|numbers| encode(numbers))
    }
}

fn encode(numbers: &Numbers) -> String {
    let mut out = String::with_capacity(8192);
    head(
        &mut out,
        "karmada_scheduler_schedule_attempts_total",
        "counter",
        "Number of attempts to schedule a binding.",
    );
    for ((result, kind), count) in &numbers.attempts {
        let labels = cycle_labels(*result, *kind);
        line(
            &mut out,
            "karmada_scheduler_schedule_attempts_total",
            &labels,
            count,
        );
    }
    let name = "karmada_scheduler_e2e_scheduling_duration_seconds";
    head(
        &mut out,
        name,
        "histogram",
        "Time from taking a binding off the queue to the last write, in seconds.",
    );
    for ((result, kind), histogram) in &numbers.end_to_end {
        let labels = cycle_labels(*result, *kind);
        for (bound, count) in CYCLE_BUCKETS.iter().zip(&histogram.counts) {
            line(
                &mut out,
                &format!("{name}_bucket"),
                &format!("{labels},le=\"{bound}\""),
                count,
            );
        }
        line(
            &mut out,
            &format!("{name}_bucket"),
            &format!("{labels},le=\"+Inf\""),
            &histogram.count,
        );
        line(&mut out, &format!("{name}_sum"), &labels, &histogram.sum);
        line(
            &mut out,
            &format!("{name}_count"),
            &labels,
            &histogram.count,
        );
    }
    let name = "karmada_scheduler_queue_incoming_bindings_total";
    head(
        &mut out,
        name,
        "counter",
        "Number of bindings added to the queue, by event.",
    );
    for (event, count) in &numbers.incoming {
        line(
            &mut out,
            name,
            &format!("event=\"{}\"", event.as_str()),
            count,
        );
    }
    let name = "scheduler_pending_bindings";
    head(
        &mut out,
        name,
        "gauge",
        "Number of bindings that wait, by queue.",
    );
    let depth = numbers.depth;
    for (queue, count) in [
        ("active", depth.active),
        ("backoff", depth.backoff),
        ("unschedulable", depth.waiting),
    ] {
        line(&mut out, name, &format!("queue=\"{queue}\""), &count);
    }
    let name = "berth_scheduler_queue_oldest_seconds";
    head(
        &mut out,
        name,
        "gauge",
        "Age of the oldest binding that is ready to be scheduled, in seconds.",
    );
    line(&mut out, name, "", &numbers.oldest_ready.as_secs_f64());
    let name = "leader_election_master_status";
    head(&mut out, name, "gauge", "1 while this process leads.");
    line(&mut out, name, "", &u8::from(numbers.leading));
    out
}

fn cycle_labels(result: CycleResult, kind: ScheduleType) -> String {
    format!(
        "result=\"{}\",schedule_type=\"{}\"",
        result.as_str(),
        kind.as_str()
    )
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: &dyn std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_under_karmadas_names() {
        let metrics = Metrics::default();
        metrics.cycle(
            CycleResult::Scheduled,
            ScheduleType::Scale,
            Duration::from_millis(3),
        );
        metrics.incoming(Incoming::BindingAdd);
        metrics.queue(
            Depth {
                active: 2,
                ..Depth::default()
            },
            Duration::from_secs(1),
        );
        let text = metrics.text();
        for expected in [
            r#"karmada_scheduler_schedule_attempts_total{result="scheduled",schedule_type="ScaleSchedule"} 1"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="0.002"} 0"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="0.004"} 1"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="16.384"} 1"#,
            r#"karmada_scheduler_queue_incoming_bindings_total{event="BindingAdd"} 1"#,
            r#"scheduler_pending_bindings{queue="active"} 2"#,
            "# TYPE karmada_scheduler_schedule_attempts_total counter",
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected}\nis not in\n{text}"
            );
        }
    }
}
