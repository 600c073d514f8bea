//! The metrics of requests, with the names that karmada-scheduler-estimator uses.

use std::time::{Duration, Instant};

use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counters, Histograms, Observe as _, exponential, families};

use crate::estimate::{Plugin, PluginRunner};

/// Upper bounds of the latency buckets: 1 ms to 512 ms.
const LATENCY: [f64; 10] = exponential(0.001, 2.0);
/// Upper bounds of the buckets for all plugins of an extension point: 0.1 ms to 205 ms.
const EXTENSION_POINT_LATENCY: [f64; 12] = exponential(0.0001, 2.0);
/// Upper bounds of the buckets for one plugin: 0.01 ms to 22 ms.
const PLUGIN_LATENCY: [f64; 20] = exponential(0.00001, 1.5);
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

/// The label of an extension point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExtensionPointLabels {
    estimating_plugin_extension_point: &'static str,
}

/// The labels of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    estimating_plugin: &'static str,
    estimating_plugin_extension_point: &'static str,
}

/// The names of Karmada's plugins.
const PLUGINS: [Plugin; 2] = [Plugin::NodeResources, Plugin::Quotas];

impl Plugin {
    /// Returns the name of Karmada's plugin.
    const fn name(self) -> &'static str {
        match self {
            Self::NodeResources => "NodeResourceEstimator",
            Self::Quotas => "ResourceQuotaEstimator",
        }
    }
}

/// The extension points of Karmada's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionPoint {
    EstimateReplicas,
    EstimateComponents,
}

impl ExtensionPoint {
    const fn name(self) -> &'static str {
        match self {
            Self::EstimateReplicas => "estimate_replicas",
            Self::EstimateComponents => "estimate_components",
        }
    }
}

/// Runs plugins and observes their times.
#[derive(Debug)]
pub(crate) struct MeasuringRunner<'a> {
    metrics: &'a RequestMetrics,
    point: ExtensionPoint,
    total: Duration,
}

impl PluginRunner for MeasuringRunner<'_> {
    fn run<T>(&mut self, plugin: Plugin, part: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = part();
        let duration = started.elapsed();
        self.total += duration;
        let labels = PluginLabels {
            estimating_plugin: plugin.name(),
            estimating_plugin_extension_point: self.point.name(),
        };
        self.metrics.plugins.observe(&labels, duration);
        result
    }
}

impl Drop for MeasuringRunner<'_> {
    fn drop(&mut self) {
        let labels = ExtensionPointLabels {
            estimating_plugin_extension_point: self.point.name(),
        };
        self.metrics.extension_points.observe(&labels, self.total);
    }
}

families! {
    /// The families about requests.
    #[derive(Clone)]
    pub(crate) struct RequestMetrics {
        /// Number of requests for estimates.
        total: Counters<RequestLabels> = "karmada_scheduler_estimator_estimating_request_total";
        /// Time to answer a request for an estimate, in seconds.
        latency: Histograms<StepLabels> = "karmada_scheduler_estimator_estimating_algorithm_duration_seconds", LATENCY;
        /// Time of all plugins of an extension point, in seconds.
        extension_points: Histograms<ExtensionPointLabels> = "karmada_scheduler_estimator_estimating_plugin_extension_point_duration_seconds", EXTENSION_POINT_LATENCY;
        /// Time of one plugin at an extension point, in seconds.
        plugins: Histograms<PluginLabels> = "karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds", PLUGIN_LATENCY;
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
        for point in [
            ExtensionPoint::EstimateReplicas,
            ExtensionPoint::EstimateComponents,
        ] {
            let estimating_plugin_extension_point = point.name();
            metrics
                .extension_points
                .get_or_create_owned(&ExtensionPointLabels {
                    estimating_plugin_extension_point,
                });
            for plugin in PLUGINS {
                metrics.plugins.get_or_create_owned(&PluginLabels {
                    estimating_plugin: plugin.name(),
                    estimating_plugin_extension_point,
                });
            }
        }
        metrics
    }

    /// Returns a runner for the plugins of one request. The time of the extension point is observed when the runner is
    /// dropped.
    pub(crate) fn runner(&self, point: ExtensionPoint) -> MeasuringRunner<'_> {
        MeasuringRunner {
            metrics: self,
            point,
            total: Duration::ZERO,
        }
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
        let mut runner = metrics.runner(ExtensionPoint::EstimateReplicas);
        assert_eq!(runner.run(Plugin::NodeResources, || 7), 7);
        drop(runner);
        let text = Format::Text.render(|registry| metrics.register(registry));
        for line in [
            r#"karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds_count{estimating_plugin="NodeResourceEstimator",estimating_plugin_extension_point="estimate_replicas"} 1"#,
            r#"karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds_count{estimating_plugin="ResourceQuotaEstimator",estimating_plugin_extension_point="estimate_replicas"} 0"#,
            r#"karmada_scheduler_estimator_estimating_plugin_extension_point_duration_seconds_count{estimating_plugin_extension_point="estimate_replicas"} 1"#,
            r#"karmada_scheduler_estimator_estimating_request_total{result="success",type="MaxAvailableReplicas"} 1"#,
            r#"karmada_scheduler_estimator_estimating_request_total{result="error",type="GetUnschedulableReplicas"} 0"#,
            r#"karmada_scheduler_estimator_estimating_algorithm_duration_seconds_bucket{result="success",type="MaxAvailableReplicas",step="Total",le="0.004"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
