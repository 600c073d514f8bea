//! The Prometheus text format of the `process_*` metrics. [`berth_metrics::process`] reads their values.

use berth_metrics::process::{self, Metric};

use super::exposition::{Kind, family, float, sample};

/// Writes the metrics of the current process.
pub fn encode(out: &mut String) {
    for metric in process::metrics() {
        let Metric {
            name,
            help,
            kind,
            value,
        } = metric;
        let kind = match kind {
            process::Kind::Counter => Kind::Counter,
            process::Kind::Gauge => Kind::Gauge,
        };
        family(out, name, kind, help);
        sample(out, name, "", float(value));
    }
}
