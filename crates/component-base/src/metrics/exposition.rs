//! The Prometheus text format, version 0.0.4.
//!
//! This code replaces a library: OpenMetrics encoders rename counters, but dashboards query the existing names. Writing
//! to a `String` cannot fail, so the results of `write!` are ignored.

use std::fmt::Write as _;

use super::histogram::Histogram;

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Observations, which are counted in buckets.
    Histogram,
}

/// Writes the header of a family. The caller writes the samples after the header.
pub fn family(out: &mut String, name: &str, kind: Kind, help: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes one sample. `labels` has the form `a="b",c="d"`, or is empty.
pub fn sample(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

/// Writes a gauge with one sample.
pub fn gauge(out: &mut String, name: &str, help: &str, value: f64) {
    family(out, name, Kind::Gauge, help);
    sample(out, name, "", float(value));
}

/// Writes the samples of one histogram.
pub fn histogram<const COUNT: usize>(
    out: &mut String,
    name: &str,
    labels: &str,
    histogram: &Histogram<COUNT>,
) {
    let bucket = format!("{name}_bucket");
    let comma = if labels.is_empty() { "" } else { "," };
    for (bound, count) in histogram.buckets() {
        let labels = format!("{labels}{comma}le=\"{}\"", float(bound));
        sample(out, &bucket, &labels, count);
    }
    let count = histogram.count();
    sample(out, &bucket, &format!("{labels}{comma}le=\"+Inf\""), count);
    sample(
        out,
        &format!("{name}_sum"),
        labels,
        float(histogram.seconds()),
    );
    sample(out, &format!("{name}_count"), labels, count);
}

/// Quotes and escapes a label value.
pub fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a number as Go does. Karmada's dashboards depend on this format of the bounds of buckets.
pub fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (value, text) in [
            (0.0, "0"),
            (1e-8, "1e-08"),
            (9.999_999_999_999_999e-6, "9.999999999999999e-06"),
            (0.0001, "0.0001"),
            (16.384, "16.384"),
            (1000.0, "1000"),
            (2.5e21, "2.5e+21"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
