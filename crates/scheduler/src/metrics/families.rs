//! The metric families of the scheduler, with their names and help texts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_component_base::metrics::leader_election;
use berth_metrics::{
    ConstGauge, Counters, Histogram, Histograms, Registry, Series, exponential, families,
};

use super::labels::{CycleLabels, EventLabels, PluginLabels, PointLabels, StepLabels};
use super::workqueue::WorkQueue;
use crate::queue::Depth;

/// Bucket bounds of cycles and of stages, in seconds.
const CYCLE: [f64; 15] = exponential(0.001, 2.0);
/// Bucket bounds of extension points, in seconds.
const POINT: [f64; 12] = exponential(0.0001, 2.0);
/// Bucket bounds of single plugins, in seconds.
const PLUGIN: [f64; 20] = exponential(0.000_01, 1.5);

families! {
    /// The families about cycles.
    pub(super) struct CycleFamilies {
        /// Number of attempts to schedule a binding.
        pub(super) attempts: Counters<CycleLabels> = "karmada_scheduler_schedule_attempts_total";
        /// Time from taking a binding off the queue to the last write, in seconds.
        pub(super) durations: Histograms<CycleLabels> = "karmada_scheduler_e2e_scheduling_duration_seconds", CYCLE;
        /// Time of a step of the decision, in seconds.
        pub(super) steps: Histograms<StepLabels> = "karmada_scheduler_scheduling_algorithm_duration_seconds", CYCLE;
        /// Time of all plugins at an extension point, in seconds.
        pub(super) points: Histograms<PointLabels> = "karmada_scheduler_framework_extension_point_duration_seconds", POINT;
    }
}

/// All metric families of one scheduler.
#[derive(Debug, Default)]
pub(super) struct Families {
    pub(super) cycles: CycleFamilies,
    /// A sorted map, because a family would hash the names of plugins in decisions.
    plugins: Mutex<BTreeMap<PluginLabels, Histogram>>,
    pub(super) incoming: Counters<EventLabels>,
    queue: Mutex<QueueState>,
    pub(super) leading: AtomicBool,
}

/// The state of the queue.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) depth: Depth,
    pub(super) oldest_ready: Duration,
    pub(super) work: WorkQueue,
}

impl Families {
    /// Records a run of a plugin.
    pub(super) fn plugin(&self, labels: PluginLabels, duration: Duration) {
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = plugins.entry(labels);
        runs.or_insert_with(|| Histogram::new(PLUGIN))
            .observe(duration.as_secs_f64());
    }

    /// Changes the state of the queue.
    pub(super) fn queue(&self, change: impl FnOnce(&mut QueueState)) {
        change(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        self.cycles.register(registry);
        let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let plugins = plugins.iter();
        registry.register(
            "karmada_scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at an extension point, in seconds.",
            Series::new(plugins.map(|(labels, runs)| (labels.clone(), runs.clone()))),
        );
        registry.register(
            "karmada_scheduler_queue_incoming_bindings_total",
            "Number of bindings added to the queue, by event.",
            self.incoming.clone(),
        );
        self.queue(|queue| queue.register(registry));
        // As in Karmada, the label `name` is empty, because existing queries may select the empty name.
        leader_election::register(registry, "", self.leading.load(Ordering::Relaxed));
    }
}

impl QueueState {
    fn register(&self, registry: &mut Registry) {
        let depths = [
            ("active", self.depth.active),
            ("backoff", self.depth.backoff),
            ("unschedulable", self.depth.waiting),
        ];
        registry.register(
            "scheduler_pending_bindings",
            "Number of pending bindings, by queue.",
            Series::new(depths.map(|(queue, count)| ([("queue", queue)], ConstGauge::new(count)))),
        );
        registry.register(
            "berth_scheduler_queue_oldest_seconds",
            "Age of the oldest binding that is ready to be scheduled, in seconds.",
            ConstGauge::new(self.oldest_ready.as_secs_f64()),
        );
        self.work.register(registry);
    }
}
