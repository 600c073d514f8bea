//! Metrics of extenders. The metrics are kept when the configuration changes.

use std::sync::Arc;
use std::time::Duration;

use berth_metrics::encoding::{EncodeLabelSet, EncodeMetric as _};
use berth_metrics::{Counter, Counters, Histograms, Observe as _, Registry, exponential, families};

use super::answers::CallError;
use super::config::Verb;

/// Upper bounds of the histogram of call durations: 1 ms to 8 s.
const BOUNDS: [f64; 14] = exponential(0.001, 2.0);

families! {
    /// The families of extenders.
    struct Families {
        /// Time of calls to extenders, in seconds.
        calls: Histograms<CallLabels> = "scheduler_extender_request_duration_seconds", BOUNDS;
        /// Failed calls to extenders, by reason.
        errors: Counters<ErrorLabels> = "scheduler_extender_request_errors_total";
        /// Connections opened to extenders.
        connections: Counters<ExtenderLabels> = "scheduler_extender_connections_total";
    }
}

/// Metrics of all extenders. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtenderMetrics(Arc<Families>);

/// Metrics of one extender.
#[derive(Debug)]
pub(super) struct ExtenderCounters {
    name: Arc<str>,
    all: Arc<Families>,
    connections: Counter,
}

/// The label of an extender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExtenderLabels {
    extender: Arc<str>,
}

/// The labels of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    extender: Arc<str>,
    verb: &'static str,
}

/// The labels of a failed call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    #[prometheus(flatten)]
    call: CallLabels,
    reason: &'static str,
}

impl ExtenderCounters {
    /// Counts a call.
    pub(super) fn call(&self, verb: Verb, took: Duration, error: Option<&CallError>) {
        let call = CallLabels {
            extender: Arc::clone(&self.name),
            verb: verb.name(),
        };
        self.all.calls.observe(&call, took);
        if let Some(error) = error {
            let reason = error.reason();
            let labels = ErrorLabels { call, reason };
            self.all.errors.get_or_create(&labels).inc();
        }
    }

    /// Counts a new connection.
    pub(super) fn connection(&self) {
        self.connections.inc();
    }
}

impl ExtenderMetrics {
    /// Returns the metrics of the extender with this name.
    pub(super) fn counters(&self, name: &Arc<str>) -> Arc<ExtenderCounters> {
        let extender = Arc::clone(name);
        let connections = &self.0.connections;
        Arc::new(ExtenderCounters {
            name: Arc::clone(name),
            all: Arc::clone(&self.0),
            connections: connections.get_or_create_owned(&ExtenderLabels { extender }),
        })
    }

    /// Registers all metrics, unless this process has never had an extender.
    pub(crate) fn register(&self, registry: &mut Registry) {
        if !self.0.connections.is_empty() {
            self.0.register(registry);
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn calls_errors_and_connections_are_exposed_by_extender() {
        let metrics = ExtenderMetrics::default();
        let render = || Format::Text.render(|registry| metrics.register(registry));
        assert_eq!(render(), "");
        let counters = metrics.counters(&"http://x/s".into());
        counters.connection();
        counters.call(Verb::Filter, Duration::from_millis(3), None);
        let error = CallError::Timeout(Duration::from_secs(5));
        counters.call(Verb::Prioritize, Duration::from_secs(5), Some(&error));
        let text = render();
        for expected in [
            r#"scheduler_extender_request_duration_seconds_bucket{extender="http://x/s",verb="filter",le="0.002"} 0"#,
            r#"scheduler_extender_request_duration_seconds_bucket{extender="http://x/s",verb="filter",le="0.004"} 1"#,
            r#"scheduler_extender_request_duration_seconds_count{extender="http://x/s",verb="prioritize"} 1"#,
            r#"scheduler_extender_request_errors_total{extender="http://x/s",verb="prioritize",reason="timeout"} 1"#,
            r#"scheduler_extender_connections_total{extender="http://x/s"} 1"#,
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected}\nis missing in\n{text}"
            );
        }
    }
}
