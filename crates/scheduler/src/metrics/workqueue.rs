//! The scheduling queue under the names of client-go's work queues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::exposition::{Kind, family, float, histogram, sample};
use super::histogram::{Histogram, exponential};
use crate::binding::BindingKey;

/// Karmada's name of its queue of bindings.
const LABELS: &str = "controller=\"scheduler-queue\",name=\"scheduler-queue\"";

static BOUNDS: [f64; 12] = exponential(10e-9, 10.0);

/// What a work queue is asked: how much came, how long it waited, how long it took.
#[derive(Debug)]
pub(super) struct WorkQueue {
    adds: u64,
    retries: u64,
    waited: Histogram<12>,
    worked: Histogram<12>,
    /// What is being decided or written, and since when.
    under_way: HashMap<BindingKey, Instant>,
}

impl Default for WorkQueue {
    fn default() -> Self {
        Self {
            adds: 0,
            retries: 0,
            waited: Histogram::new(&BOUNDS),
            worked: Histogram::new(&BOUNDS),
            under_way: HashMap::new(),
        }
    }
}

impl WorkQueue {
    pub(super) fn taken(&mut self, key: &BindingKey, waited: Duration, now: Instant) {
        self.adds += 1;
        self.waited.observe(waited);
        self.under_way.insert(key.clone(), now);
    }

    pub(super) fn ended(&mut self, key: &BindingKey, retried: bool, now: Instant) {
        self.retries += u64::from(retried);
        if let Some(since) = self.under_way.remove(key) {
            self.worked.observe(now.saturating_duration_since(since));
        }
    }

    /// `depth` keys are ready: they have come, and were not taken yet.
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
        let ages = || self.under_way.values().map(Instant::elapsed);
        let name = "workqueue_longest_running_processor_seconds";
        let help = "How long the key that is under way for longest has been, in seconds.";
        family(out, name, Kind::Gauge, help);
        let longest = ages().max().unwrap_or_default();
        sample(out, name, LABELS, float(longest.as_secs_f64()));
        let name = "workqueue_queue_duration_seconds";
        let help = "How long in seconds an item stays in workqueue before being requested";
        family(out, name, Kind::Histogram, help);
        histogram(out, name, LABELS, &self.waited);
        let name = "workqueue_retries_total";
        let help = "Total number of keys that came back after a delay.";
        family(out, name, Kind::Counter, help);
        sample(out, name, LABELS, self.retries);
        let name = "workqueue_unfinished_work_seconds";
        let help = "How long the keys that are under way have been together, in seconds.";
        family(out, name, Kind::Gauge, help);
        let together: Duration = ages().sum();
        sample(out, name, LABELS, float(together.as_secs_f64()));
        let name = "workqueue_work_duration_seconds";
        let help = "How long in seconds processing an item from workqueue takes.";
        family(out, name, Kind::Histogram, help);
        histogram(out, name, LABELS, &self.worked);
    }
}
