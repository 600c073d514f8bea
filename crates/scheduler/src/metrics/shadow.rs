//! Metrics of shadow mode, in which this scheduler compares its decisions with the decisions of another scheduler.

use std::time::Duration;

use berth_metrics::{
    Counter, FloatGauge, Histograms, NoLabels, Observe as _, Registry, Series, exponential,
    families,
};

/// Bucket bounds of decisions of this scheduler, in seconds.
const DECISION: [f64; 15] = exponential(0.000_01, 2.0);
/// Bucket bounds of decisions of the other scheduler, in seconds.
const WRITE: [f64; 15] = exponential(0.001, 2.0);

families! {
    /// Durations of decisions, and the bindings that wait for a decision.
    struct Families {
        /// Time of a decision of this scheduler, in seconds.
        decisions: Histograms<NoLabels> = "berth_shadow_decision_duration_seconds", DECISION;
        /// Time from a change that needs a decision to the status that the other scheduler writes, in seconds.
        writes: Histograms<NoLabels> = "berth_shadow_other_scheduling_duration_seconds", WRITE;
        /// Number of bindings that need a decision and have none from the other scheduler yet.
        waiting: FloatGauge = "berth_shadow_waiting_bindings";
    }
}

/// Counts and durations of shadow mode.
#[derive(Debug, Default)]
pub(crate) struct ShadowMetrics {
    equal: Counter,
    different: Counter,
    families: Families,
}

impl ShadowMetrics {
    pub(crate) fn compared(&self, equal: bool) {
        let result = if equal { &self.equal } else { &self.different };
        result.inc();
    }

    pub(crate) fn decided(&self, duration: Duration) {
        self.families.decisions.observe(&[], duration);
    }

    pub(crate) fn other_decided(&self, duration: Duration) {
        self.families.writes.observe(&[], duration);
    }

    pub(crate) fn waiting(&self, difference: f64) {
        self.families.waiting.inc_by(difference);
    }

    /// Registers all families.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let results = [("equal", &self.equal), ("different", &self.different)];
        registry.register(
            "berth_shadow_comparisons_total",
            "Number of decisions of the other scheduler that were compared, by result.",
            Series::new(results.map(|(result, count)| ([("result", result)], count.clone()))),
        );
        self.families.register(registry);
    }
}
