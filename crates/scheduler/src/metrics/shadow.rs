//! Metrics of shadow mode, in which this scheduler compares its decisions with the decisions of another scheduler.

use std::time::Duration;

use berth_metrics::{
    Counter, Family, FloatGauge, Histogram, NoLabels, Registry, Series, exponential,
};

/// Bucket bounds of decisions of this scheduler, in seconds.
const DECISION: [f64; 15] = exponential(0.000_01, 2.0);
/// Bucket bounds of decisions of the other scheduler, in seconds.
const WRITE: [f64; 15] = exponential(0.001, 2.0);

/// Counts and durations of shadow mode.
#[derive(Debug)]
pub(crate) struct ShadowMetrics {
    equal: Counter,
    different: Counter,
    decisions: Family<NoLabels, Histogram>,
    writes: Family<NoLabels, Histogram>,
    waiting: FloatGauge,
}

impl Default for ShadowMetrics {
    fn default() -> Self {
        Self {
            equal: Counter::default(),
            different: Counter::default(),
            decisions: Family::new_with_constructor(|| Histogram::new(DECISION)),
            writes: Family::new_with_constructor(|| Histogram::new(WRITE)),
            waiting: FloatGauge::default(),
        }
    }
}

impl ShadowMetrics {
    pub(crate) fn compared(&self, equal: bool) {
        let result = if equal { &self.equal } else { &self.different };
        result.inc();
    }

    pub(crate) fn decided(&self, duration: Duration) {
        let decisions = self.decisions.get_or_create(&[]);
        decisions.observe(duration.as_secs_f64());
    }

    pub(crate) fn other_decided(&self, duration: Duration) {
        let writes = self.writes.get_or_create(&[]);
        writes.observe(duration.as_secs_f64());
    }

    pub(crate) fn waiting(&self, difference: f64) {
        self.waiting.inc_by(difference);
    }

    /// Registers all families.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let results = [("equal", &self.equal), ("different", &self.different)];
        registry.register(
            "berth_shadow_comparisons_total",
            "Number of decisions of the other scheduler that were compared, by result.",
            Series::new(results.map(|(result, count)| ([("result", result)], count.clone()))),
        );
        registry.register(
            "berth_shadow_decision_duration_seconds",
            "Time of a decision of this scheduler, in seconds.",
            self.decisions.clone(),
        );
        registry.register(
            "berth_shadow_other_scheduling_duration_seconds",
            "Time from a change that needs a decision to the status that the other scheduler writes, in seconds.",
            self.writes.clone(),
        );
        registry.register(
            "berth_shadow_waiting_bindings",
            "Number of bindings that need a decision and have none from the other scheduler yet.",
            self.waiting.clone(),
        );
    }
}
