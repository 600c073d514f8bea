//! The metrics of requests, with the names that karmada-scheduler-estimator uses.

use std::time::Duration;

use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counters, Histograms, Observe as _, exponential, families};

/// Upper bounds of the latency buckets: 1 ms to 512 ms.
const LATENCY: [f64; 10] = exponential(0.001, 2.0);
/// The step that stands for the whole request.
const TOTAL: &str = "Total";
const SUCCESS: &str = "success";
const ERROR: &str = "error";

/// The names of the gRPC methods.
const METHODS: [&str; 3] = [
    MAX_AVAILABLE_REPLICAS,
    MAX_AVAILABLE_COMPONENT_SETS,
    GET_UNSCHEDULABLE_REPLICAS,
];
pub(crate) const MAX_AVAILABLE_REPLICAS: &str = "MaxAvailableReplicas";
pub(crate) const MAX_AVAILABLE_COMPONENT_SETS: &str = "MaxAvailableComponentSets";
pub(crate) const GET_UNSCHEDULABLE_REPLICAS: &str = "GetUnschedulableReplicas";

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
    /// Returns metrics in which each method has series for both results.
    pub(crate) fn for_all_methods() -> Self {
        let metrics = Self::default();
        for method in METHODS {
            for result in [SUCCESS, ERROR] {
                let (counted, timed) = labels(method, result);
                metrics.total.get_or_create_owned(&counted);
                metrics.latency.get_or_create_owned(&timed);
            }
        }
        metrics
    }

    /// Counts an answered request. `method` is the name of the gRPC method.
    pub(crate) fn answered<T, E>(
        &self,
        method: &'static str,
        result: &Result<T, E>,
        duration: Duration,
    ) {
        let result = if result.is_ok() { SUCCESS } else { ERROR };
        let (counted, timed) = labels(method, result);
        self.total.get_or_create(&counted).inc();
        self.latency.observe(&timed, duration);
    }
}

fn labels(method: &'static str, result: &'static str) -> (RequestLabels, StepLabels) {
    let counted = RequestLabels {
        result,
        r#type: method,
    };
    let timed = StepLabels {
        result,
        r#type: method,
        step: TOTAL,
    };
    (counted, timed)
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn requests_are_counted_by_method_and_result() {
        let metrics = RequestMetrics::for_all_methods();
        metrics.answered(
            MAX_AVAILABLE_REPLICAS,
            &Ok::<_, ()>(1),
            Duration::from_millis(3),
        );
        let text = Format::Text.render(|registry| metrics.register(registry));
        for line in [
            r#"karmada_scheduler_estimator_estimating_request_total{result="success",type="MaxAvailableReplicas"} 1"#,
            r#"karmada_scheduler_estimator_estimating_request_total{result="error",type="GetUnschedulableReplicas"} 0"#,
            r#"karmada_scheduler_estimator_estimating_algorithm_duration_seconds_bucket{result="success",type="MaxAvailableReplicas",step="Total",le="0.004"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
