//! The metric families of the scheduler, and their text format.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_component_base::metrics::exposition::{Kind, family, gauge, histogram, quoted, sample};
use berth_component_base::metrics::histogram::{Histogram, exponential};
use berth_component_base::metrics::leader_election;
use berth_engine::Point;

use super::labels::{self, CycleResult, Incoming, PluginResult};
use super::steps::Step;
use super::workqueue::WorkQueue;
use crate::queue::Depth;
use crate::rules::schedule_trigger::ScheduleType;

/// Bucket bounds of cycles and of stages, in seconds.
static CYCLE: [f64; 15] = exponential(0.001, 2.0);
/// Bucket bounds of extension points, in seconds.
static POINT: [f64; 12] = exponential(0.0001, 2.0);
/// Bucket bounds of single plugins, in seconds.
static PLUGIN: [f64; 20] = exponential(0.000_01, 1.5);

/// All metric families of one scheduler.
#[derive(Debug, Default)]
pub(super) struct Families {
    attempts: BTreeMap<(CycleResult, ScheduleType), u64>,
    end_to_end: BTreeMap<(CycleResult, ScheduleType), Histogram<15>>,
    steps: BTreeMap<Step, Histogram<15>>,
    points: BTreeMap<(Point, PluginResult), Histogram<12>>,
    plugins: BTreeMap<(String, Point, PluginResult), Histogram<20>>,
    incoming: BTreeMap<Incoming, u64>,
    depth: Depth,
    pub(super) oldest_ready: Duration,
    pub(super) leading: bool,
    pub(super) work: WorkQueue,
}

impl Families {
    pub(super) fn cycle(&mut self, result: CycleResult, kind: ScheduleType, duration: Duration) {
        let key = (result, kind);
        *self.attempts.entry(key).or_default() += 1;
        let cycles = self.end_to_end.entry(key);
        cycles
            .or_insert_with(|| Histogram::new(&CYCLE))
            .observe(duration);
    }

    pub(super) fn step(&mut self, step: Step, duration: Duration) {
        let steps = self.steps.entry(step);
        steps
            .or_insert_with(|| Histogram::new(&CYCLE))
            .observe(duration);
    }

    pub(super) fn point(&mut self, point: Point, result: PluginResult, duration: Duration) {
        let points = self.points.entry((point, result));
        points
            .or_insert_with(|| Histogram::new(&POINT))
            .observe(duration);
    }

    pub(super) fn plugin(
        &mut self,
        plugin: &str,
        point: Point,
        result: PluginResult,
        duration: Duration,
    ) {
        let plugins = self.plugins.entry((plugin.to_owned(), point, result));
        plugins
            .or_insert_with(|| Histogram::new(&PLUGIN))
            .observe(duration);
    }

    pub(super) fn incoming(&mut self, event: Incoming) {
        *self.incoming.entry(event).or_default() += 1;
    }

    pub(super) fn set_depth(&mut self, depth: Depth) {
        self.depth = depth;
        self.work.set_depth(depth.active);
    }

    pub(super) fn encode(&self, out: &mut String) {
        self.encode_cycles(out);
        self.encode_plugins(out);
        self.encode_queue(out);
        // As in Karmada, the label `name` is empty, because existing queries may select the empty name.
        leader_election::encode(out, "", self.leading);
    }

    fn encode_cycles(&self, out: &mut String) {
        let name = "karmada_scheduler_schedule_attempts_total";
        let help = "Number of attempts to schedule a binding.";
        family(out, name, Kind::Counter, help);
        for ((result, kind), count) in &self.attempts {
            sample(out, name, &cycle_labels(*result, *kind), count);
        }
        let name = "karmada_scheduler_e2e_scheduling_duration_seconds";
        let help = "Time from taking a binding off the queue to the last write, in seconds.";
        family(out, name, Kind::Histogram, help);
        for ((result, kind), cycles) in &self.end_to_end {
            histogram(out, name, &cycle_labels(*result, *kind), cycles);
        }
        let name = "karmada_scheduler_scheduling_algorithm_duration_seconds";
        let help = "Time of a step of the decision, in seconds.";
        family(out, name, Kind::Histogram, help);
        for (step, times) in &self.steps {
            let labels = format!("schedule_step=\"{}\"", labels::step(*step));
            histogram(out, name, &labels, times);
        }
    }

    fn encode_plugins(&self, out: &mut String) {
        let name = "karmada_scheduler_framework_extension_point_duration_seconds";
        let help = "Time of all plugins at an extension point, in seconds.";
        family(out, name, Kind::Histogram, help);
        for ((point, result), times) in &self.points {
            let (point, result) = (labels::point(*point), result.as_str());
            let labels = format!("extension_point=\"{point}\",result=\"{result}\"");
            histogram(out, name, &labels, times);
        }
        let name = "karmada_scheduler_plugin_execution_duration_seconds";
        let help = "Time of one plugin at an extension point, in seconds.";
        family(out, name, Kind::Histogram, help);
        for ((plugin, point, result), times) in &self.plugins {
            let (point, result) = (labels::point(*point), result.as_str());
            let plugin = quoted(plugin);
            let labels = format!("extension_point=\"{point}\",plugin={plugin},result=\"{result}\"");
            histogram(out, name, &labels, times);
        }
    }

    fn encode_queue(&self, out: &mut String) {
        let name = "karmada_scheduler_queue_incoming_bindings_total";
        let help = "Number of bindings added to the queue, by event.";
        family(out, name, Kind::Counter, help);
        for (event, count) in &self.incoming {
            sample(out, name, &format!("event=\"{}\"", event.as_str()), count);
        }
        let name = "scheduler_pending_bindings";
        let help = "Number of pending bindings, by queue.";
        family(out, name, Kind::Gauge, help);
        let depth = self.depth;
        for (queue, count) in [
            ("active", depth.active),
            ("backoff", depth.backoff),
            ("unschedulable", depth.waiting),
        ] {
            sample(out, name, &format!("queue=\"{queue}\""), count);
        }
        gauge(
            out,
            "berth_scheduler_queue_oldest_seconds",
            "Age of the oldest binding that is ready to be scheduled, in seconds.",
            self.oldest_ready.as_secs_f64(),
        );
        self.work.encode(out);
    }
}

fn cycle_labels(result: CycleResult, kind: ScheduleType) -> String {
    format!(
        "result=\"{}\",schedule_type=\"{}\"",
        result.as_str(),
        kind.as_str()
    )
}
