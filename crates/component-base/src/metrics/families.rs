//! Metric families with labels. A family has one sample for each combination of label values.
//!
//! A family has no sample before its first observation, as in Prometheus' Go client.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::exposition::{Kind, family, float, histogram, quoted, sample};
use super::histogram::Histogram;

/// The values of the labels of one sample.
type Values<const LABELS: usize> = [String; LABELS];

/// Name, labels and help text of a family.
#[derive(Debug)]
pub struct Description<const LABELS: usize> {
    /// The metric name.
    pub name: &'static str,
    /// The label names.
    pub labels: [&'static str; LABELS],
    /// The help text.
    pub help: &'static str,
}

impl<const LABELS: usize> Description<LABELS> {
    fn with(&self, values: &Values<LABELS>) -> String {
        let labels = self.labels.iter().zip(values);
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}={}", quoted(value)))
            .collect();
        labels.join(",")
    }
}

/// The samples of a family, by label values.
#[derive(Debug)]
struct Samples<T, const LABELS: usize> {
    description: Description<LABELS>,
    values: Mutex<BTreeMap<Values<LABELS>, T>>,
}

impl<T, const LABELS: usize> Samples<T, LABELS> {
    const fn new(description: Description<LABELS>) -> Self {
        Self {
            description,
            values: Mutex::new(BTreeMap::new()),
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<Values<LABELS>, T>) -> R) -> R {
        change(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes the samples whose first label has the value `first`.
    fn remove(&self, first: &str) {
        self.with(|values| {
            values.retain(|labels, _| labels.first().is_none_or(|label| label != first));
        });
    }

    fn encode(&self, out: &mut String, kind: Kind, write: impl Fn(&mut String, &str, &str, &T)) {
        let Description { name, help, .. } = self.description;
        family(out, name, kind, help);
        self.with(|values| {
            for (labels, value) in values {
                write(out, name, &self.description.with(labels), value);
            }
        });
    }
}

fn owned<const LABELS: usize>(values: [&str; LABELS]) -> Values<LABELS> {
    values.map(str::to_owned)
}

/// A family of counters.
#[derive(Debug)]
pub struct Counters<const LABELS: usize>(Samples<u64, LABELS>);

impl<const LABELS: usize> Counters<LABELS> {
    /// Returns a family without samples.
    pub const fn new(description: Description<LABELS>) -> Self {
        Self(Samples::new(description))
    }

    /// Adds a counter with the value 0 and these label values, unless the counter exists.
    pub fn initialize(&self, labels: [&str; LABELS]) {
        self.0.with(|values| {
            values.entry(owned(labels)).or_default();
        });
    }

    /// Adds 1 to the counter with these label values.
    pub fn increment(&self, labels: [&str; LABELS]) {
        self.0.with(|values| {
            *values.entry(owned(labels)).or_default() += 1;
        });
    }

    /// Writes the family.
    pub fn encode(&self, out: &mut String) {
        self.0
            .encode(out, Kind::Counter, |out, name, labels, count| {
                sample(out, name, labels, count);
            });
    }
}

/// A family of gauges.
#[derive(Debug)]
pub struct Gauges<const LABELS: usize>(Samples<f64, LABELS>);

impl<const LABELS: usize> Gauges<LABELS> {
    /// Returns a family without samples.
    pub const fn new(description: Description<LABELS>) -> Self {
        Self(Samples::new(description))
    }

    /// Sets the gauge with these label values.
    pub fn set(&self, labels: [&str; LABELS], value: f64) {
        self.0.with(|values| values.insert(owned(labels), value));
    }

    /// Adds a difference to the gauge with these label values.
    pub fn add(&self, labels: [&str; LABELS], difference: f64) {
        self.0.with(|values| {
            *values.entry(owned(labels)).or_default() += difference;
        });
    }

    /// Removes the gauges whose first label has the value `first`.
    pub fn remove(&self, first: &str) {
        self.0.remove(first);
    }

    /// Writes the family.
    pub fn encode(&self, out: &mut String) {
        self.0.encode(out, Kind::Gauge, |out, name, labels, value| {
            sample(out, name, labels, float(*value));
        });
    }
}

/// A family of histograms of durations.
#[derive(Debug)]
pub struct Histograms<const LABELS: usize, const COUNT: usize> {
    samples: Samples<Histogram<COUNT>, LABELS>,
    bounds: &'static [f64; COUNT],
}

impl<const LABELS: usize, const COUNT: usize> Histograms<LABELS, COUNT> {
    /// Returns a family without samples.
    pub const fn new(description: Description<LABELS>, bounds: &'static [f64; COUNT]) -> Self {
        Self {
            samples: Samples::new(description),
            bounds,
        }
    }

    /// Adds a duration to the histogram with these label values.
    pub fn observe(&self, labels: [&str; LABELS], duration: Duration) {
        self.samples.with(|values| {
            let histogram = values.entry(owned(labels));
            histogram
                .or_insert_with(|| Histogram::new(self.bounds))
                .observe(duration);
        });
    }

    /// Removes the histograms whose first label has the value `first`.
    pub fn remove(&self, first: &str) {
        self.samples.remove(first);
    }

    /// Writes the family.
    pub fn encode(&self, out: &mut String) {
        self.samples.encode(out, Kind::Histogram, histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BOUNDS: [f64; 1] = [1.0];

    const fn described<const LABELS: usize>(labels: [&'static str; LABELS]) -> Description<LABELS> {
        Description {
            name: "m",
            labels,
            help: "Help.",
        }
    }

    fn samples(encode: impl Fn(&mut String)) -> Vec<String> {
        let mut out = String::new();
        encode(&mut out);
        let lines = out.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_family_has_one_sample_for_each_combination_of_label_values() {
        let counters = Counters::new(described(["a", "b"]));
        assert_eq!(samples(|out| counters.encode(out)), [""; 0]);
        counters.initialize(["x", "0"]);
        for labels in [["x", "1"], ["x", "2"], ["x", "1"]] {
            counters.increment(labels);
        }
        assert_eq!(
            samples(|out| counters.encode(out)),
            [
                r#"m{a="x",b="0"} 0"#,
                r#"m{a="x",b="1"} 2"#,
                r#"m{a="x",b="2"} 1"#
            ]
        );
    }

    #[test]
    fn samples_are_removed_by_their_first_label() {
        let gauges = Gauges::new(described(["cluster"]));
        gauges.set(["m1"], 1.5);
        gauges.set(["m2"], 2.0);
        gauges.add(["m2"], -1.0);
        gauges.remove("m1");
        assert_eq!(samples(|out| gauges.encode(out)), [r#"m{cluster="m2"} 1"#]);
        let histograms = Histograms::new(described(["cluster"]), &BOUNDS);
        histograms.observe(["m1"], Duration::from_millis(500));
        histograms.remove("m1");
        assert_eq!(samples(|out| histograms.encode(out)), [""; 0]);
    }

    #[test]
    fn a_family_without_labels_has_one_sample() {
        let histograms = Histograms::new(described([]), &BOUNDS);
        histograms.observe([], Duration::from_millis(500));
        assert_eq!(
            samples(|out| histograms.encode(out)),
            [
                r#"m_bucket{le="1"} 1"#,
                r#"m_bucket{le="+Inf"} 1"#,
                "m_sum 0.5",
                "m_count 1"
            ]
        );
    }
}
