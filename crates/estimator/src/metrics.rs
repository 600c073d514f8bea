//! The metrics of requests, with the names that karmada-scheduler-estimator uses.

use std::time::Duration;

use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counters, Histograms, Observe as _, exponential, families};

/// Upper bounds of the latency buckets: 1 ms to 512 ms.
const LATENCY: [f64; 10] = exponential(0.001, 2.0);
/// The step that stands for the whole request.
const TOTAL: &str = "Total";

/// The labels of a counted request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    result: &'static str,
    r#type: &'static str,
}

/// The labels of a step of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    result: &'static str,
    r#type: &'static str,
    step: &'static str,
}

families! {
    /// The families about requests.
    #[derive(Clone)]
    pub(crate) struct RequestMetrics {
        /// Number of requests for estimates.
        total: Counters<RequestLabels> = "karmada_scheduler_estimator_estimating_request_total";
        /// Time to answer a request for an estimate, in seconds.
        latency: Histograms<StepLabels> = "karmada_scheduler_estimator_estimating_algorithm_duration_seconds", LATENCY;
    }
}

impl RequestMetrics {
    /// Counts an answered request. `method` is the name of the gRPC method.
    pub(crate) fn answered<T, E>(
        &self,
        method: &'static str,
        result: &Result<T, E>,
        duration: Duration,
    ) {
        let result = if result.is_ok() { "success" } else { "error" };
        let labels = RequestLabels {
            result,
            r#type: method,
        };
        self.total.get_or_create(&labels).inc();
        let labels = StepLabels {
            result,
            r#type: method,
            step: TOTAL,
        };
        self.latency.observe(&labels, duration);
    }
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn requests_are_counted_by_method_and_result() {
        let metrics = RequestMetrics::default();
        metrics.answered(
            "MaxAvailableReplicas",
            &Ok::<_, ()>(1),
            Duration::from_millis(3),
        );
        let text = Format::Text.render(|registry| metrics.register(registry));
        for line in [
            r#"karmada_scheduler_estimator_estimating_request_total{result="success",type="MaxAvailableReplicas"} 1"#,
            r#"karmada_scheduler_estimator_estimating_algorithm_duration_seconds_bucket{result="success",type="MaxAvailableReplicas",step="Total",le="0.004"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
