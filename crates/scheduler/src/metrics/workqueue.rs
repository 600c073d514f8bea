//! Metrics of the scheduling queue, with the names of client-go's work queues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::exposition::{Kind, family, float, histogram, sample};
use super::histogram::{Histogram, exponential};
use crate::binding::BindingKey;

/// The labels that Karmada uses for its queue of bindings.
const LABELS: &str = "controller=\"scheduler-queue\",name=\"scheduler-queue\"";

static BOUNDS: [f64; 12] = exponential(10e-9, 10.0);

/// Counters and durations of the queue.
#[derive(Debug)]
pub(super) struct WorkQueue {
    adds: u64,
    retries: u64,
    waited: Histogram<12>,
    worked: Histogram<12>,
    /// The keys in processing, with the time they left the queue.
    in_progress: HashMap<BindingKey, Instant>,
}

impl Default for WorkQueue {
    fn default() -> Self {
        Self {
            adds: 0,
            retries: 0,
            waited: Histogram::new(&BOUNDS),
            worked: Histogram::new(&BOUNDS),
            in_progress: HashMap::new(),
        }
    }
}

impl WorkQueue {
    pub(super) fn taken(&mut self, key: &BindingKey, waited: Duration, now: Instant) {
        self.adds += 1;
        self.waited.observe(waited);
        self.in_progress.insert(key.clone(), now);
    }

    pub(super) fn ended(&mut self, key: &BindingKey, retried: bool, now: Instant) {
        self.retries += u64::from(retried);
        if let Some(since) = self.in_progress.remove(key) {
            self.worked.observe(now.saturating_duration_since(since));
        }
    }

    /// Writes the metrics. `depth` is the number of ready keys.
    pub(super) fn encode(&self, out: &mut String, depth: usize) {
        let ready = u64::try_from(depth).unwrap_or(u64::MAX);
        let name = "workqueue_adds_total";
        let help = "Total number of adds handled by workqueue";
        family(out, name, Kind::Counter, help);
        sample(out, name, LABELS, self.adds.saturating_add(ready));
        let name = "workqueue_depth";
        let help = "Current depth of workqueue by workqueue and priority";
        family(out, name, Kind::Gauge, help);
        sample(out, name, &format!("{LABELS},priority=\"\""), depth);
        let ages = || self.in_progress.values().map(Instant::elapsed);
        let name = "workqueue_longest_running_processor_seconds";
        let help =
            "How long in seconds the longest running processor for workqueue has been running.";
        family(out, name, Kind::Gauge, help);
        let longest = ages().max().unwrap_or_default();
        sample(out, name, LABELS, float(longest.as_secs_f64()));
        let name = "workqueue_queue_duration_seconds";
        let help = "How long in seconds an item stays in workqueue before being requested";
        family(out, name, Kind::Histogram, help);
        histogram(out, name, LABELS, &self.waited);
        let name = "workqueue_retries_total";
        let help = "Total number of retries handled by workqueue";
        family(out, name, Kind::Counter, help);
        sample(out, name, LABELS, self.retries);
        let name = "workqueue_unfinished_work_seconds";
        let help = "Total time in seconds of the keys in progress, which work_duration has not observed yet.";
        family(out, name, Kind::Gauge, help);
        let total: Duration = ages().sum();
        sample(out, name, LABELS, float(total.as_secs_f64()));
        let name = "workqueue_work_duration_seconds";
        let help = "How long in seconds processing an item from workqueue takes.";
        family(out, name, Kind::Histogram, help);
        histogram(out, name, LABELS, &self.worked);
    }
}
