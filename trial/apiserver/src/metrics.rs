//! Request metrics with the names that kube-apiserver uses, and the text of `/metrics`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use berth_metrics::process;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::in_flight::InFlight;
use crate::registry::Registry as Resources;
use crate::store::Store;

/// Media type of the metrics text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The metric labels of a request. Labels name only served resources, so that a client cannot create new label values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: String,
    pub(crate) dry_run: String,
    pub(crate) component: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    #[prometheus(flatten)]
    request: RequestLabels,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceName {
    resource: String,
}

/// The counters and durations of requests.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<ResponseLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Metrics {
    /// Records a request. The duration of a watch ends with the head of its response.
    pub(crate) fn record(&self, request: RequestLabels, code: u16, duration: Duration) {
        self.durations
            .get_or_create(&request)
            .observe(duration.as_secs_f64());
        self.requests
            .get_or_create(&ResponseLabels { request, code })
            .inc();
    }

    /// Renders the text of `/metrics`.
    pub(crate) fn render(
        &self,
        store: &Store,
        resources: &Resources,
        in_flight: &InFlight,
    ) -> String {
        let mut registry = Registry::default();
        registry.register(
            "apiserver_request",
            "Requests with a response",
            self.requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the head of the response",
            self.durations.clone(),
        );
        let executing: Family<RequestKind, Gauge> = Family::default();
        for (request_kind, now) in in_flight.counts() {
            executing
                .get_or_create(&RequestKind { request_kind })
                .set(count(now));
        }
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests executing now, without watches",
            executing,
        );
        let objects: Family<ResourceName, Gauge> = Family::default();
        for table in resources.snapshot().by_table.keys() {
            let resource = table.to_string();
            objects
                .get_or_create(&ResourceName { resource })
                .set(count(store.list(table, None).items.len()));
        }
        registry.register("apiserver_storage_objects", "Stored objects", objects);
        register_process_metrics(&mut registry);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

/// Registers the `process_*` metrics. Removes `_total` from names of counters and the full stop from help texts,
/// because the encoder appends them.
fn register_process_metrics(registry: &mut Registry) {
    for metric in process::metrics() {
        let help = metric.help.trim_end_matches('.');
        match metric.kind {
            process::Kind::Counter => {
                let counter: Counter<f64, AtomicU64> = Counter::default();
                counter.inc_by(metric.value);
                registry.register(metric.name.trim_end_matches("_total"), help, counter);
            }
            process::Kind::Gauge => {
                let gauge: Gauge<f64, AtomicU64> = Gauge::default();
                gauge.set(metric.value);
                registry.register(metric.name, help, gauge);
            }
        }
    }
}
