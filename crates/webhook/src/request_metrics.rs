//! The metrics of admission requests, with the names that karmada-webhook uses. The label `webhook` is the path of the
//! webhook.

use std::time::Instant;

use berth_component_base::metrics::families::{Counters, Description, Gauges, Histograms};
use berth_component_base::metrics::histogram::exponential;
use http::StatusCode;

use crate::endpoint::Endpoint;

/// Upper bounds of the latency buckets, as in controller-runtime: 10 ns to 1,000 s.
static LATENCY: [f64; 12] = exponential(1e-8, 10.0);

/// The counts and latencies of requests, and the number of requests in progress.
#[derive(Debug)]
pub struct RequestMetrics {
    latency: Histograms<1, 12>,
    total: Counters<2>,
    in_flight: Gauges<1>,
}

impl Default for RequestMetrics {
    /// Returns metrics in which each webhook has counters for the codes 200 and 500, as in karmada-webhook.
    fn default() -> Self {
        let metrics = Self {
            latency: Histograms::new(
                Description {
                    name: "controller_runtime_webhook_latency_seconds",
                    labels: ["webhook"],
                    help: "Time to respond to an admission request, in seconds.",
                },
                &LATENCY,
            ),
            total: Counters::new(Description {
                name: "controller_runtime_webhook_requests_total",
                labels: ["webhook", "code"],
                help: "Number of admission requests, by HTTP status code.",
            }),
            in_flight: Gauges::new(Description {
                name: "controller_runtime_webhook_requests_in_flight",
                labels: ["webhook"],
                help: "Number of admission requests in progress.",
            }),
        };
        for path in Endpoint::all().filter_map(Endpoint::path) {
            metrics.in_flight.set([path], 0.0);
            for status in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR] {
                metrics.total.initialize([path, status.as_str()]);
            }
        }
        metrics
    }
}

impl RequestMetrics {
    /// Writes all metric families.
    pub fn encode(&self, out: &mut String) {
        self.latency.encode(out);
        self.total.encode(out);
        self.in_flight.encode(out);
    }

    /// Starts the measurement of a request. The request is in progress until the returned value is finished or dropped.
    pub(crate) fn start(&self, path: &'static str) -> RequestInProgress<'_> {
        self.in_flight.add([path], 1.0);
        RequestInProgress {
            metrics: self,
            path,
            started: Instant::now(),
        }
    }
}

/// A request in progress. This value is dropped if the connection closes before the response. Then the request is not
/// counted in the total and in the latencies.
#[derive(Debug)]
pub(crate) struct RequestInProgress<'a> {
    metrics: &'a RequestMetrics,
    path: &'static str,
    started: Instant,
}

impl RequestInProgress<'_> {
    pub(crate) fn finish(self, status: StatusCode) {
        let elapsed = self.started.elapsed();
        self.metrics.latency.observe([self.path], elapsed);
        self.metrics.total.increment([self.path, status.as_str()]);
    }
}

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.add([self.path], -1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = r#"{webhook="/mutate-work""#;

    /// Returns the samples of a family for one webhook.
    fn samples(metrics: &RequestMetrics, family: &str) -> Vec<String> {
        let mut text = String::new();
        metrics.encode(&mut text);
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
