//! The `process_*` metrics in the Prometheus text format. [`berth_apimachinery::process`] reads their values.

use berth_apimachinery::process::{self, Metric};

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
