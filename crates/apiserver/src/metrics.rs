//! What the server counts, under the names that a kube-apiserver uses, and the text of `/metrics`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use berth_apimachinery::process;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::shared::Shared;

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// What a request was about. Only what is served has its name here: clients cannot make up new ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct About {
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
struct Answered {
    #[prometheus(flatten)]
    about: About,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalReason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceName {
    resource: String,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<Answered, Counter>,
    durations: Family<About, Histogram>,
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
    /// Notes an answered request. The time of a watch is that until it began.
    pub(crate) fn record(&self, about: About, code: u16, took: Duration) {
        self.durations
            .get_or_create(&about)
            .observe(took.as_secs_f64());
        self.requests.get_or_create(&Answered { about, code }).inc();
    }

    /// The text of `/metrics`.
    pub(crate) fn render(shared: &Shared) -> String {
        let mut registry = Registry::default();
        let own = &shared.metrics;
        registry.register(
            "apiserver_request",
            "Answered requests",
            own.requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the answer began",
            own.durations.clone(),
        );
        let (reading, writing, watches) = shared.load.now();
        let inflight: Family<RequestKind, Gauge> = Family::default();
        for (request_kind, now) in [("readOnly", reading), ("mutating", writing)] {
            inflight
                .get_or_create(&RequestKind { request_kind })
                .set(count(now));
        }
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests worked on now, watches aside",
            inflight,
        );
        let long: Gauge = Gauge::default();
        long.set(count(watches));
        registry.register("apiserver_longrunning_requests", "Watches now", long);
        let rejected: Family<RefusalReason, Counter> = Family::default();
        for (reason, number) in shared.load.refusals().all() {
            rejected
                .get_or_create(&RefusalReason { reason })
                .inc_by(number);
        }
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests refused for want of capacity, by the limit they met",
            rejected,
        );
        let objects: Family<ResourceName, Gauge> = Family::default();
        for table in shared.registry.snapshot().by_table.keys() {
            let resource = table.to_string();
            objects
                .get_or_create(&ResourceName { resource })
                .set(count(shared.store.list(table, None).items.len()));
        }
        registry.register("apiserver_storage_objects", "Stored objects", objects);
        register_process_metrics(&mut registry);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

/// Registers the `process_*` metrics. The encoder appends `_total` to counters and a full stop to help texts.
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
