//! Request metrics with the names that kube-apiserver uses, and the text of `/metrics`.

use std::time::Duration;

use berth_metrics::encoding::EncodeLabelSet;
use berth_metrics::{ConstGauge, Counter, Family, Format, Histogram, Series, process};

use crate::in_flight::InFlight;
use crate::registry::Registry as Resources;
use crate::store::Store;

/// The format of the metrics text.
pub(crate) const FORMAT: Format = Format::OpenMetrics;

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
        FORMAT.render(|registry| {
            registry.register(
                "apiserver_request_total",
                "Requests with a response.",
                self.requests.clone(),
            );
            registry.register(
                "apiserver_request_duration_seconds",
                "Time until the head of the response.",
                self.durations.clone(),
            );
            let executing = in_flight.counts().into_iter();
            registry.register(
                "apiserver_current_inflight_requests",
                "Requests executing now, without watches.",
                Series::new(
                    executing.map(|(kind, now)| ([("request_kind", kind)], ConstGauge::new(now))),
                ),
            );
            let snapshot = resources.snapshot();
            let objects = snapshot.by_table.keys().map(|table| {
                let labels = [("resource", table.to_string())];
                let objects = store.list(table, None).items.len();
                (labels, ConstGauge::new(objects))
            });
            registry.register(
                "apiserver_storage_objects",
                "Stored objects.",
                Series::new(objects),
            );
            process::register(registry);
        })
    }
}
