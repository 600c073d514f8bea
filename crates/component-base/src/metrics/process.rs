//! The Prometheus text format of the `process_*` metrics. [`berth_apimachinery::process_metrics`] reads their values.

use berth_apimachinery::process_metrics::{self, Metric};

use super::exposition::{Kind, family, float, sample};

/// Writes the metrics of the current process.
pub fn encode(out: &mut String) {
    for metric in process_metrics::metrics() {
        let Metric {
            name,
            help,
            kind,
            value,
        } = metric;
        let kind = match kind {
            process_metrics::Kind::Counter => Kind::Counter,
            process_metrics::Kind::Gauge => Kind::Gauge,
        };
        family(out, name, kind, help);
        sample(out, name, "", float(value));
    }
}
