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
    cluster_queues: Mutex<Vec<QueueMetrics>>,
    pub(super) leading: AtomicBool,
}

/// The state of a ClusterQueue.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueMetrics {
    pub(crate) name: String,
    /// The number of bindings without clusters.
    pub(crate) pending: usize,
    /// The number of bindings with clusters.
    pub(crate) admitted: usize,
    /// The time for which the first binding waits, in seconds.
    pub(crate) oldest_seconds: i64,
    /// The used share of the nominal quota of each resource.
    pub(crate) used: Vec<(String, f64)>,
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

    /// Sets the state of all ClusterQueues.
    pub(super) fn cluster_queues(&self, queues: Vec<QueueMetrics>) {
        let mut known = self
            .cluster_queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *known = queues;
    }

    fn register_cluster_queues(&self, registry: &mut Registry) {
        let queues = self
            .cluster_queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if queues.is_empty() {
            return;
        }
        let label = |queue: &QueueMetrics| [("cluster_queue", queue.name.clone())];
        let of = |value: fn(&QueueMetrics) -> f64| {
            let series = queues.iter();
            Series::new(series.map(|queue| (label(queue), ConstGauge::new(value(queue)))))
        };
        registry.register(
            "berth_scheduler_cluster_queue_pending_bindings",
            "Number of bindings without clusters, by ClusterQueue.",
            of(|queue| count(queue.pending)),
        );
        registry.register(
            "berth_scheduler_cluster_queue_admitted_bindings",
            "Number of bindings with clusters, by ClusterQueue.",
            of(|queue| count(queue.admitted)),
        );
        registry.register(
            "berth_scheduler_cluster_queue_oldest_seconds",
            "Time for which the oldest waiting binding of a ClusterQueue waits, in seconds.",
            of(|queue| i32::try_from(queue.oldest_seconds).map_or(f64::INFINITY, f64::from)),
        );
        let shares = queues.iter().flat_map(|queue| {
            let used = queue.used.iter();
            used.map(|(resource, share)| {
                let labels = [
                    ("cluster_queue", queue.name.clone()),
                    ("resource", resource.clone()),
                ];
                (labels, ConstGauge::new(*share))
            })
        });
        registry.register(
            "berth_scheduler_cluster_queue_used_ratio",
            "Used share of the nominal quota of a ClusterQueue, by resource; more than 1 if the queue borrows.",
            Series::new(shares),
        );
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
        self.register_cluster_queues(registry);
        // As in Karmada, the label `name` is empty, because existing queries may select the empty name.
        leader_election::register(registry, "", self.leading.load(Ordering::Relaxed));
    }
}

/// Returns a number of bindings as the value of a metric.
fn count(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
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
