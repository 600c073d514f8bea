//! The Prometheus text format, version 0.0.4, as Go programs write it.
//!
//! `prometheus-client` writes OpenMetrics only. Dashboards query the older names of counters and the bounds of buckets
//! in Go's notation, so this module changes these parts of the samples. Names, help texts and types are kept.

use std::borrow::Cow;

/// A sample in the text format.
struct Sample<'a> {
    /// The labels, without the bound of a bucket.
    labels: &'a str,
    /// The position among the samples of a histogram: buckets, sum, number of observations.
    position: u8,
    line: String,
}

/// Converts the samples in a text of `prometheus-client`. Samples of a family are sorted by their labels.
pub(super) fn from_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut kind, mut samples) = ("", Vec::new());
    for line in text.lines() {
        if line.starts_with('#') {
            write_sorted(&mut samples, &mut out);
            kind = line.rsplit(' ').next().unwrap_or_default();
            write_line(line, &mut out);
        } else {
            samples.extend(sample(line, kind));
        }
    }
    write_sorted(&mut samples, &mut out);
    out
}

fn write_sorted(samples: &mut Vec<Sample<'_>>, out: &mut String) {
    samples.sort_by_key(|sample| (sample.labels, sample.position));
    for sample in samples.drain(..) {
        write_line(&sample.line, out);
    }
}

fn write_line(line: &str, out: &mut String) {
    out.push_str(line);
    out.push('\n');
}

/// Converts one sample of a family of this type.
fn sample<'a>(line: &'a str, kind: &str) -> Option<Sample<'a>> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let (mut name, mut labels, mut bound, mut position) = (name, labels, None, 0);
    if kind == "counter" {
        // The library appends the suffix to the registered name.
        name = name.strip_suffix("_total")?;
    } else if kind == "histogram" {
        // The library writes the bound before the other labels.
        if let Some(rest) = labels.strip_prefix("le=\"") {
            let (found, others) = rest.split_once('"')?;
            (bound, labels) = (Some(found), others.trim_start_matches(','));
        } else {
            position = if name.ends_with("_sum") { 1 } else { 2 };
        }
    }
    let value = number(value);
    let line = match (bound.map(number), labels) {
        (None, "") => format!("{name} {value}"),
        (None, _) => format!("{name}{{{labels}}} {value}"),
        (Some(bound), "") => format!("{name}{{le=\"{bound}\"}} {value}"),
        (Some(bound), _) => format!("{name}{{{labels},le=\"{bound}\"}} {value}"),
    };
    Some(Sample {
        labels,
        position,
        line,
    })
}

/// Formats a floating-point number as Go does. Integers and `+Inf` stay as they are.
fn number(text: &str) -> Cow<'_, str> {
    match text.parse() {
        Ok(value) if text.contains(['.', 'e']) => Cow::Owned(float(value)),
        _ => Cow::Borrowed(text),
    }
}

/// Formats a number as Go does. Karmada's dashboards depend on this format of the bounds of buckets.
fn float(value: f64) -> String {
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
    use crate::{Format, Histogram, Series, exponential};

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
        assert_eq!(number("9007199254740993"), "9007199254740993");
    }

    #[test]
    fn buckets_are_cumulative_and_precede_their_sum() {
        const BOUNDS: [f64; 3] = exponential(0.001, 2.0);
        let histograms = ["b", "a"].map(|name| ([("x", name)], Histogram::new(BOUNDS)));
        for seconds in [0.001, 0.003, 0.5] {
            histograms[0].1.observe(seconds);
        }
        let text = Format::Text.render(|registry| {
            registry.register("m_seconds", "Help.", Series::new(histograms));
        });
        let expected = r#"# HELP m_seconds Help.
# TYPE m_seconds histogram
m_seconds_bucket{x="a",le="0.001"} 0
m_seconds_bucket{x="a",le="0.002"} 0
m_seconds_bucket{x="a",le="0.004"} 0
m_seconds_bucket{x="a",le="+Inf"} 0
m_seconds_sum{x="a"} 0
m_seconds_count{x="a"} 0
m_seconds_bucket{x="b",le="0.001"} 1
m_seconds_bucket{x="b",le="0.002"} 1
m_seconds_bucket{x="b",le="0.004"} 2
m_seconds_bucket{x="b",le="+Inf"} 3
m_seconds_sum{x="b"} 0.504
m_seconds_count{x="b"} 3
"#;
        assert_eq!(text, expected);
    }
}
