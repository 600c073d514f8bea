//! The families of a response of `/metrics`, and the formats of the response.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{self, Metric};

use crate::text_format;

/// The format of a response of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4, as Go programs write it.
    Text,
    /// OpenMetrics. Families without series are omitted.
    OpenMetrics,
}

impl Format {
    /// Returns the media type of the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Renders the families that `register` registers.
    pub fn render(self, register: impl FnOnce(&mut Registry)) -> String {
        let mut registry = Registry {
            format: self,
            families: registry::Registry::default(),
        };
        register(&mut registry);
        let mut text = String::with_capacity(32 * 1024);
        // Writing to a string cannot fail.
        match self {
            Self::Text => {
                let _ = text::encode_registry(&mut text, &registry.families);
                text_format::from_open_metrics(&text)
            }
            Self::OpenMetrics => {
                let _ = text::encode(&mut text, &registry.families);
                text
            }
        }
    }
}

/// The families of a response, in the order in which they are registered.
#[derive(Debug)]
pub struct Registry {
    format: Format,
    families: registry::Registry,
}

impl Registry {
    /// Adds a family. The name of a counter contains `_total` if the samples have this suffix. `help` ends with a
    /// full stop.
    pub fn register(&mut self, name: &'static str, help: &'static str, family: impl Metric) {
        match self.format {
            Format::Text => {
                let described = Described { name, help, family };
                self.families.register_collector(Box::new(described));
            }
            // The library appends the suffix of counters and the full stop.
            Format::OpenMetrics => {
                let name = match family.metric_type() {
                    MetricType::Counter => name.trim_end_matches("_total"),
                    _ => name,
                };
                let help = help.trim_end_matches('.');
                self.families.register(name, help, family);
            }
        }
    }
}

/// A family with its exact name and help text. It is written even if it has no series.
#[derive(Debug)]
struct Described<M> {
    name: &'static str,
    help: &'static str,
    family: M,
}

impl<M: Metric> Collector for Described<M> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = self.family.metric_type();
        let encoder = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        self.family.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;

    use super::*;
    use crate::{ConstCounter, Counter, Family, FloatGauge, Histogram, NoLabels, Series};

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        a: &'static str,
        b: u8,
    }

    fn rendered(family: impl Metric) -> String {
        Format::Text.render(|registry| registry.register("m", "Help", family))
    }

    fn samples(family: impl Metric) -> Vec<String> {
        let text = rendered(family);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_family_has_one_sample_for_each_combination_of_label_values() {
        let counters = Family::<Labels, Counter>::default();
        assert_eq!(
            rendered(counters.clone()),
            "# HELP m Help\n# TYPE m counter\n"
        );
        let counter = |b| counters.get_or_create_owned(&Labels { a: "x", b });
        counter(0);
        for b in [1, 2, 1] {
            counter(b).inc();
        }
        assert_eq!(
            samples(counters),
            [
                r#"m{a="x",b="0"} 0"#,
                r#"m{a="x",b="1"} 2"#,
                r#"m{a="x",b="2"} 1"#
            ]
        );
    }

    #[test]
    fn samples_are_removed_by_their_labels() {
        let gauges = Family::<Labels, FloatGauge>::default();
        let (first, second) = (Labels { a: "m1", b: 0 }, Labels { a: "m2", b: 0 });
        gauges.get_or_create(&first).set(1.5);
        gauges.get_or_create(&second).set(2.0);
        gauges.get_or_create(&second).inc_by(-1.0);
        gauges.remove(&first);
        assert_eq!(samples(gauges), [r#"m{a="m2",b="0"} 1"#]);
    }

    #[test]
    fn a_family_without_labels_has_one_sample() {
        let histograms: Family<NoLabels, Histogram> =
            Family::new_with_constructor(|| Histogram::new([1.0]));
        assert_eq!(samples(histograms.clone()), [""; 0]);
        histograms.get_or_create(&[]).observe(0.5);
        assert_eq!(
            samples(histograms),
            [
                r#"m_bucket{le="1"} 1"#,
                r#"m_bucket{le="+Inf"} 1"#,
                "m_sum 0.5",
                "m_count 1"
            ]
        );
    }

    #[test]
    fn label_values_are_escaped() {
        let labels = [("a", "a\"b\\c\nd"), ("le", "1")];
        let family = Series::new([(labels, ConstCounter::new(1_u64))]);
        assert_eq!(samples(family), [r#"m{a="a\"b\\c\nd",le="1"} 1"#]);
    }

    #[test]
    fn open_metrics_has_the_suffix_of_counters_in_samples_only() {
        let text = Format::OpenMetrics.render(|registry| {
            registry.register("m_total", "Help.", ConstCounter::new(1_u64));
            let empty = Series::<Labels, FloatGauge>::new([]);
            registry.register("empty", "Help.", empty);
        });
        let expected = "# HELP m Help.\n# TYPE m counter\nm_total 1\n# EOF\n";
        assert_eq!(text, expected);
    }
}
