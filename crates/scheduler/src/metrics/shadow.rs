//! Metrics of shadow mode, in which this scheduler compares its decisions with the decisions of another scheduler.

use std::time::Duration;

use berth_component_base::metrics::families::{Counters, Description, Gauges, Histograms};
use berth_component_base::metrics::histogram::exponential;

/// Bucket bounds of decisions of this scheduler, in seconds.
static DECISION: [f64; 15] = exponential(0.000_01, 2.0);
/// Bucket bounds of decisions of the other scheduler, in seconds.
static WRITE: [f64; 15] = exponential(0.001, 2.0);

/// Counts and durations of shadow mode.
#[derive(Debug)]
pub(crate) struct ShadowMetrics {
    comparisons: Counters<1>,
    decisions: Histograms<0, 15>,
    writes: Histograms<0, 15>,
    waiting: Gauges<0>,
}

impl Default for ShadowMetrics {
    fn default() -> Self {
        let comparisons = Counters::new(Description {
            name: "berth_shadow_comparisons_total",
            labels: ["result"],
            help: "Number of decisions of the other scheduler that were compared, by result.",
        });
        for result in ["equal", "different"] {
            comparisons.initialize([result]);
        }
        let waiting = Gauges::new(Description {
            name: "berth_shadow_waiting_bindings",
            labels: [],
            help: "Number of bindings that need a decision and have none from the other scheduler yet.",
        });
        waiting.set([], 0.0);
        Self {
            comparisons,
            decisions: Histograms::new(
                Description {
                    name: "berth_shadow_decision_duration_seconds",
                    labels: [],
                    help: "Time of a decision of this scheduler, in seconds.",
                },
                &DECISION,
            ),
            writes: Histograms::new(
                Description {
                    name: "berth_shadow_other_scheduling_duration_seconds",
                    labels: [],
                    help: "Time from a change that needs a decision to the status that the other scheduler writes, in seconds.",
                },
                &WRITE,
            ),
            waiting,
        }
    }
}

impl ShadowMetrics {
    pub(crate) fn compared(&self, equal: bool) {
        self.comparisons
            .increment([if equal { "equal" } else { "different" }]);
    }

    pub(crate) fn decided(&self, duration: Duration) {
        self.decisions.observe([], duration);
    }

    pub(crate) fn other_decided(&self, duration: Duration) {
        self.writes.observe([], duration);
    }

    pub(crate) fn waiting(&self, difference: f64) {
        self.waiting.add([], difference);
    }

    /// Renders all families.
    pub(crate) fn encode(&self, out: &mut String) {
        self.comparisons.encode(out);
        self.decisions.encode(out);
        self.writes.encode(out);
        self.waiting.encode(out);
    }
}
