//! Metrics of all programs: the counters, gauges, histograms and families of `prometheus-client`, and the text of
//! `/metrics`.
//!
//! A component registers its metrics with their names and help texts each time a client reads `/metrics`:
//!
//! ```
//! use berth_metrics::{Counter, Format};
//!
//! let writes: Counter = Counter::default();
//! writes.inc();
//! let text = Format::Text.render(|registry| {
//!     registry.register("writes_total", "Number of writes.", writes.clone());
//! });
//! assert!(text.ends_with("# TYPE writes_total counter\nwrites_total 1\n"));
//! ```
//!
//! Only this crate depends on `prometheus-client`. The derives of labels expand to paths into `prometheus_client`, so a
//! crate that uses them gives this crate a second name: `extern crate berth_metrics as prometheus_client;`.
//!
//! - `registry` collects families and renders them. `text_format` writes the older of the two formats.
//! - `families` declares structs of families. `series` contains families whose label values are fixed or computed. `buckets` computes bounds of histograms.
//! - [`process`] contains the metrics of the process.

mod buckets;
mod families;
pub mod process;
mod registry;
mod series;
mod text_format;

pub use prometheus_client::encoding;
pub use prometheus_client::metrics::counter::{ConstCounter, Counter};
pub use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
pub use prometheus_client::metrics::histogram::Histogram;

pub use self::buckets::exponential;
pub use self::families::{Counters, FloatGauge, Gauges, Histograms, NoLabels, Observe};
pub use self::registry::{Format, Registry};
pub use self::series::Series;
