//! Metrics of the scheduler, with Karmada's names, labels and buckets.
//!
//! - `families` contains the metric families. `labels` contains their labels.
//! - `decision` measures one decision: `steps` measures the stages, `points` the extension points and plugins.
//! - `workqueue` measures the scheduling queue. `shadow` measures the comparisons in shadow mode.
//!
//! The metrics that all components expose are in `berth-component-base`.

mod decision;
mod families;
mod labels;
mod points;
mod shadow;
mod steps;
mod workqueue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_component_base::metrics::requests::Requests;
use berth_component_base::metrics::{build_info, process};
use berth_engine::Point;
use berth_metrics::{Observe as _, Registry};

use self::families::Families;
use self::labels::{CycleLabels, EventLabels, PluginLabels, PointLabel, PointLabels, StepLabels};
use crate::queue::Depth;
use crate::rules::schedule_trigger::ScheduleType;

pub(crate) use decision::{DecisionTimes, Stages};
pub(crate) use families::QueueMetrics;
pub(crate) use labels::{CycleResult, Incoming, PluginResult};
pub(crate) use shadow::ShadowMetrics;

/// Number of decisions from one measurement of single plugins to the next. Not every decision measures its plugins,
/// because reading the clock takes longer than most plugins.
const PLUGIN_SAMPLE_INTERVAL: u64 = 10;

/// The metrics of one scheduler. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    families: Arc<Families>,
    decisions: Arc<AtomicU64>,
    requests: Option<Requests>,
}

impl Metrics {
    /// Adds the metrics of a client's requests.
    #[must_use]
    pub(crate) fn with_requests(mut self, requests: Requests) -> Self {
        self.requests = Some(requests);
        self
    }

    /// Records a completed scheduling cycle. `duration` is the time from taking the key off the queue to the last
    /// response of the API server.
    pub(crate) fn cycle(
        &self,
        result: CycleResult,
        schedule_type: ScheduleType,
        duration: Duration,
    ) {
        let labels = CycleLabels {
            result,
            schedule_type,
        };
        let cycles = &self.families.cycles;
        cycles.attempts.get_or_create(&labels).inc();
        cycles.durations.observe(&labels, duration);
    }

    /// Returns an observer that measures one decision.
    pub(crate) fn clock(&self) -> DecisionTimes {
        let previous = self.decisions.fetch_add(1, Ordering::Relaxed);
        DecisionTimes::new(previous.is_multiple_of(PLUGIN_SAMPLE_INTERVAL))
    }

    /// Records the durations of a decision.
    pub(crate) fn decision(&self, times: DecisionTimes) {
        let DecisionTimes { steps, points } = times;
        for (schedule_step, duration) in steps.durations {
            let steps = &self.families.cycles.steps;
            steps.observe(&StepLabels { schedule_step }, duration);
        }
        for (point, status, duration) in points.points {
            self.extension_point(point, status.into(), duration);
        }
        for (point, plugin, status, duration) in points.plugins {
            self.plugin(&plugin, point, status.into(), duration);
        }
    }

    /// Records a run of all plugins at an extension point.
    pub(crate) fn extension_point(&self, point: Point, result: PluginResult, duration: Duration) {
        let labels = PointLabels {
            extension_point: PointLabel(point),
            result,
        };
        self.families.cycles.points.observe(&labels, duration);
    }

    /// Records a run of one plugin at an extension point.
    pub(crate) fn plugin(
        &self,
        plugin: &str,
        point: Point,
        result: PluginResult,
        duration: Duration,
    ) {
        let labels = PluginLabels {
            extension_point: PointLabel(point),
            plugin: plugin.to_owned(),
            result,
        };
        self.families.plugin(labels, duration);
    }

    /// Counts a key that entered the queue.
    pub(crate) fn incoming(&self, event: Incoming) {
        let events = &self.families.incoming;
        events.get_or_create(&EventLabels { event }).inc();
    }

    /// Records that a key left the queue. `waited` is the time for which the key was ready.
    pub(crate) fn taken(&self, key: &BindingKey, waited: Duration, now: Instant) {
        self.families
            .queue(|queue| queue.work.taken(key, waited, now));
    }

    /// Records that the processing of a key ended. If `retried`, the key becomes ready again after a delay.
    pub(crate) fn ended(&self, key: &BindingKey, retried: bool, now: Instant) {
        self.families
            .queue(|queue| queue.work.ended(key, retried, now));
    }

    /// Sets the depth of the queue and the age of its oldest ready key.
    pub(crate) fn queue(&self, depth: Depth, oldest_ready: Duration) {
        self.families.queue(|queue| {
            queue.depth = depth;
            queue.work.set_depth(depth.active);
            queue.oldest_ready = oldest_ready;
        });
    }

    /// Sets the state of all ClusterQueues.
    pub(crate) fn cluster_queues(&self, queues: Vec<QueueMetrics>) {
        self.families.cluster_queues(queues);
    }

    /// Sets whether this process is the leader.
    pub(crate) fn leading(&self, leading: bool) {
        self.families.leading.store(leading, Ordering::Relaxed);
    }

    /// Registers all metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.families.register(registry);
        if let Some(requests) = &self.requests {
            requests.register(registry);
        }
        build_info::register(registry);
        process::register(registry);
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::{Observer as _, Status};
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn metrics_have_karmadas_names() {
        let metrics = Metrics::default().with_requests(Requests::to("host".to_owned()));
        metrics.cycle(
            CycleResult::Scheduled,
            ScheduleType::Scale,
            Duration::from_millis(3),
        );
        metrics.incoming(Incoming::BindingAdd);
        let mut times = DecisionTimes::default();
        for point in [Point::Filter, Point::Assign] {
            times.point_begins(point);
        }
        times.point_ends(Point::Assign, Status::Success);
        metrics.decision(times);
        metrics.extension_point(
            Point::Filter,
            PluginResult::Unschedulable,
            Duration::from_micros(150),
        );
        metrics.plugin(
            "APIEnablement",
            Point::Filter,
            PluginResult::Success,
            Duration::from_micros(12),
        );
        let (key, now) = (BindingKey::new("", "b"), Instant::now());
        metrics.taken(&key, Duration::from_millis(5), now);
        metrics.ended(&key, true, now + Duration::from_secs(5));
        let depth = Depth {
            active: 2,
            ..Depth::default()
        };
        metrics.queue(depth, Duration::from_secs(1));
        let text = Format::Text.render(|registry| metrics.register(registry));
        for expected in [
            r#"karmada_scheduler_schedule_attempts_total{result="scheduled",schedule_type="ScaleSchedule"} 1"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="0.002"} 0"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="0.004"} 1"#,
            r#"karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result="scheduled",schedule_type="ScaleSchedule",le="16.384"} 1"#,
            r#"karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step="Filter"} 1"#,
            r#"karmada_scheduler_scheduling_algorithm_duration_seconds_bucket{schedule_step="AssignReplicas",le="16.384"} 1"#,
            r#"karmada_scheduler_framework_extension_point_duration_seconds_bucket{extension_point="Filter",result="Unschedulable",le="0.0002"} 1"#,
            r#"karmada_scheduler_framework_extension_point_duration_seconds_bucket{extension_point="Filter",result="Unschedulable",le="0.2048"} 1"#,
            r#"karmada_scheduler_plugin_execution_duration_seconds_bucket{extension_point="Filter",plugin="APIEnablement",result="Success",le="1e-05"} 0"#,
            r#"karmada_scheduler_plugin_execution_duration_seconds_bucket{extension_point="Filter",plugin="APIEnablement",result="Success",le="1.5000000000000002e-05"} 1"#,
            r#"karmada_scheduler_queue_incoming_bindings_total{event="BindingAdd"} 1"#,
            r#"scheduler_pending_bindings{queue="active"} 2"#,
            r#"leader_election_master_status{name=""} 0"#,
            r#"workqueue_adds_total{controller="scheduler-queue",name="scheduler-queue"} 3"#,
            r#"workqueue_depth{controller="scheduler-queue",name="scheduler-queue",priority=""} 2"#,
            r#"workqueue_queue_duration_seconds_bucket{controller="scheduler-queue",name="scheduler-queue",le="9.999999999999999e-06"} 0"#,
            r#"workqueue_queue_duration_seconds_bucket{controller="scheduler-queue",name="scheduler-queue",le="0.01"} 1"#,
            r#"workqueue_retries_total{controller="scheduler-queue",name="scheduler-queue"} 1"#,
            r#"workqueue_work_duration_seconds_sum{controller="scheduler-queue",name="scheduler-queue"} 5"#,
            r#"workqueue_unfinished_work_seconds{controller="scheduler-queue",name="scheduler-queue"} 0"#,
            "# TYPE karmada_scheduler_schedule_attempts_total counter",
            "# TYPE rest_client_requests_total counter",
            "# TYPE process_resident_memory_bytes gauge",
            "# TYPE karmada_build_info gauge",
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected}\nis missing in\n{text}"
            );
        }
    }
}
