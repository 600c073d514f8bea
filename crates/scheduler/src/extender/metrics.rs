//! Metrics of extenders, in the Prometheus text format. The metrics are kept when the configuration changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::answers::CallError;
use super::config::Verb;
use berth_component_base::metrics::exposition::{Kind, family, histogram, quoted, sample};
use berth_component_base::metrics::histogram::{Histogram, exponential};

const BUCKETS: usize = 14;
/// Upper bounds of the histogram of call durations: 1 ms to 8 s.
const BOUNDS: [f64; BUCKETS] = exponential(0.001, 2.0);

/// Metrics of all extenders. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtenderMetrics(Arc<Mutex<BTreeMap<Arc<str>, Arc<ExtenderCounters>>>>);

/// Metrics of one extender.
#[derive(Debug, Default)]
pub(super) struct ExtenderCounters(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    calls: BTreeMap<Verb, Histogram<BUCKETS>>,
    errors: BTreeMap<(Verb, &'static str), u64>,
    connections: u64,
}

impl ExtenderCounters {
    fn with<T>(&self, change: impl FnOnce(&mut Numbers) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a call.
    pub(super) fn call(&self, verb: Verb, took: Duration, error: Option<&CallError>) {
        self.with(|numbers| {
            let calls = numbers.calls.entry(verb);
            calls
                .or_insert_with(|| Histogram::new(&BOUNDS))
                .observe(took);
            if let Some(error) = error {
                *numbers.errors.entry((verb, error.reason())).or_default() += 1;
            }
        });
    }

    /// Counts a new connection.
    pub(super) fn connection(&self) {
        self.with(|numbers| numbers.connections += 1);
    }
}

impl ExtenderMetrics {
    /// Returns the metrics of the extender with this name.
    pub(super) fn counters(&self, name: &Arc<str>) -> Arc<ExtenderCounters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(Arc::clone(name)).or_default())
    }

    /// Renders all metrics in the text format 0.0.4. Returns an empty text if this process has never had an extender.
    pub(crate) fn text(&self) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        if all.is_empty() {
            return out;
        }
        let name = "scheduler_extender_request_duration_seconds";
        family(
            &mut out,
            name,
            Kind::Histogram,
            "Time of calls to extenders, in seconds.",
        );
        for (extender, counters) in all.iter() {
            counters.with(|numbers| {
                for (verb, calls) in &numbers.calls {
                    histogram(&mut out, name, &labels(extender, *verb), calls);
                }
            });
        }
        let name = "scheduler_extender_request_errors_total";
        family(
            &mut out,
            name,
            Kind::Counter,
            "Failed calls to extenders, by reason.",
        );
        for (extender, counters) in all.iter() {
            counters.with(|numbers| {
                for ((verb, reason), count) in &numbers.errors {
                    let labels = format!("{},reason=\"{reason}\"", labels(extender, *verb));
                    sample(&mut out, name, &labels, count);
                }
            });
        }
        let name = "scheduler_extender_connections_total";
        family(
            &mut out,
            name,
            Kind::Counter,
            "Connections opened to extenders.",
        );
        for (extender, counters) in all.iter() {
            let labels = format!("extender={}", quoted(extender));
            counters.with(|numbers| sample(&mut out, name, &labels, numbers.connections));
        }
        out
    }
}

fn labels(extender: &str, verb: Verb) -> String {
    format!("extender={},verb=\"{}\"", quoted(extender), verb.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_errors_and_connections_are_exposed_by_extender() {
        let metrics = ExtenderMetrics::default();
        assert_eq!(metrics.text(), "");
        let counters = metrics.counters(&"http://x/s".into());
        counters.connection();
        counters.call(Verb::Filter, Duration::from_millis(3), None);
        let error = CallError::Timeout(Duration::from_secs(5));
        counters.call(Verb::Prioritize, Duration::from_secs(5), Some(&error));
        let text = metrics.text();
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
