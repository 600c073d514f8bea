//! The metrics of admission requests, with the names that karmada-webhook uses. The label `webhook` is the path of the
//! webhook.

use std::time::Instant;

use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{Counters, Gauges, Histograms, Observe as _, Registry, exponential, families};
use http::StatusCode;

use crate::endpoint::Endpoint;

/// Upper bounds of the latency buckets, as in controller-runtime: 10 ns to 1,000 s.
const LATENCY: [f64; 12] = exponential(1e-8, 10.0);

/// The label of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabels {
    webhook: &'static str,
}

/// The labels of a request with a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    webhook: &'static str,
    code: u16,
}

families! {
    /// The families about requests.
    struct Families {
        /// Time to respond to an admission request, in seconds.
        latency: Histograms<PathLabels> = "controller_runtime_webhook_latency_seconds", LATENCY;
        /// Number of admission requests, by HTTP status code.
        total: Counters<ResponseLabels> = "controller_runtime_webhook_requests_total";
        /// Number of admission requests in progress.
        in_flight: Gauges<PathLabels> = "controller_runtime_webhook_requests_in_flight";
    }
}

/// The counts and latencies of requests, and the number of requests in progress.
#[derive(Debug)]
pub struct RequestMetrics(Families);

impl PathLabels {
    fn new(path: &'static str) -> Self {
        Self { webhook: path }
    }
}

impl ResponseLabels {
    fn new(path: &'static str, status: StatusCode) -> Self {
        Self {
            webhook: path,
            code: status.as_u16(),
        }
    }
}

impl Default for RequestMetrics {
    /// Returns metrics in which each webhook has counters for the codes 200 and 500, as in karmada-webhook.
    fn default() -> Self {
        let metrics = Families::default();
        for path in Endpoint::all().filter_map(Endpoint::path) {
            let labels = PathLabels::new(path);
            metrics.in_flight.get_or_create_owned(&labels);
            for status in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR] {
                let labels = ResponseLabels::new(path, status);
                metrics.total.get_or_create_owned(&labels);
            }
        }
        Self(metrics)
    }
}

impl RequestMetrics {
    /// Registers all metric families.
    pub fn register(&self, registry: &mut Registry) {
        self.0.register(registry);
    }

    /// Starts the measurement of a request. The request is in progress until the returned value is finished or dropped.
    pub(crate) fn start(&self, path: &'static str) -> RequestInProgress<'_> {
        let in_flight = &self.0.in_flight;
        in_flight.get_or_create(&PathLabels::new(path)).inc();
        RequestInProgress {
            metrics: &self.0,
            path,
            started: Instant::now(),
        }
    }
}

/// A request in progress. This value is dropped if the connection closes before the response. Then the request is not
/// counted in the total and in the latencies.
#[derive(Debug)]
pub(crate) struct RequestInProgress<'a> {
    metrics: &'a Families,
    path: &'static str,
    started: Instant,
}

impl RequestInProgress<'_> {
    pub(crate) fn finish(self, status: StatusCode) {
        let labels = PathLabels::new(self.path);
        let latency = &self.metrics.latency;
        latency.observe(&labels, self.started.elapsed());
        let labels = ResponseLabels::new(self.path, status);
        self.metrics.total.get_or_create(&labels).inc();
    }
}

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        let in_flight = &self.metrics.in_flight;
        in_flight.get_or_create(&PathLabels::new(self.path)).dec();
    }
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    const LABEL: &str = r#"{webhook="/mutate-work""#;

    /// Returns the samples of a family for one webhook.
    fn samples(metrics: &RequestMetrics, family: &str) -> Vec<String> {
        let text = Format::Text.render(|registry| metrics.register(registry));
        let prefix = format!("controller_runtime_webhook_{family}{LABEL}");
        let samples = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        samples.map(str::to_owned).collect()
    }

    #[test]
    fn a_request_is_in_progress_until_it_is_finished_or_dropped() {
        let metrics = RequestMetrics::default();
        assert_eq!(samples(&metrics, "requests_in_flight"), ["} 0"]);
        let first = metrics.start("/mutate-work");
        let second = metrics.start("/mutate-work");
        assert_eq!(samples(&metrics, "requests_in_flight"), ["} 2"]);
        first.finish(StatusCode::OK);
        drop(second);
        assert_eq!(samples(&metrics, "requests_in_flight"), ["} 0"]);
        assert_eq!(
            samples(&metrics, "requests_total"),
            [r#",code="200"} 1"#, r#",code="500"} 0"#]
        );
        assert_eq!(samples(&metrics, "latency_seconds_count"), ["} 1"]);
    }
}
