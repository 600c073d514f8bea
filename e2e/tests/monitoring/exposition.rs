//! A parser of the Prometheus text formats. It reads the metric families, their label names and the number of their
//! samples.

use std::collections::BTreeMap;

/// A metric family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    /// Label names in the order of their first occurrence, without `le`.
    pub(crate) labels: Vec<String>,
    pub(crate) samples: usize,
}

/// Metric families by name.
pub(crate) type Families = BTreeMap<String, Family>;

/// Parses the output of `/metrics`, in the Prometheus text format 0.0.4 or in the OpenMetrics format.
pub(crate) fn parse(text: &str) -> Families {
    let mut families = Families::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (keyword, name) = (words.next().unwrap(), words.next().unwrap_or_default());
            let value = words.next().unwrap_or_default().to_owned();
            match keyword {
                "HELP" => families.entry(name.to_owned()).or_default().help = value,
                "TYPE" => families.entry(name.to_owned()).or_default().kind = value,
                "EOF" | "UNIT" => {}
                other => panic!("unknown keyword {other}: {line}"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let family = family_of(&mut families, &line[..end]);
        family.samples += 1;
        for label in label_names(&line[end..]) {
            if label != "le" && !family.labels.contains(&label) {
                family.labels.push(label);
            }
        }
    }
    let is_open_metrics = text.ends_with("# EOF\n");
    families
        .into_iter()
        .map(|(name, family)| {
            // OpenMetrics declares a counter without the suffix `_total` of its samples.
            let suffix = if is_open_metrics && family.kind == "counter" {
                "_total"
            } else {
                ""
            };
            (format!("{name}{suffix}"), family)
        })
        .collect()
}

/// Returns the family of a sample. `sample` is the name at the start of the sample's line.
fn family_of<'a>(families: &'a mut Families, sample: &str) -> &'a mut Family {
    let suffixes = ["", "_bucket", "_count", "_sum", "_total"];
    let names = suffixes.map(|suffix| sample.strip_suffix(suffix));
    let name = names
        .into_iter()
        .flatten()
        .find(|name| families.contains_key(*name))
        .unwrap_or_else(|| panic!("{sample} has no type"))
        .to_owned();
    families.get_mut(&name).unwrap()
}

/// Returns the label names in the part of a sample after its name, for example in `{a="…",b="…"} 1`.
pub(crate) fn label_names(labels: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = labels.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if quoted => _ = characters.next(),
            '"' => quoted = !quoted,
            _ if quoted => {}
            '=' => names.push(std::mem::take(&mut name)),
            '}' => break,
            '{' | ',' => name.clear(),
            other => name.push(other),
        }
    }
    names
}

/// Label values may contain commas, quotes and braces. Counters of OpenMetrics get the suffix `_total`.
#[test]
fn types_labels_and_samples_are_read() {
    let text = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\n\
        a_seconds_bucket{x=\"1,y=\\\"\",le=\"1\"} 2\na_seconds_sum{x=\"1\"} 2\n\
        # HELP b B.\n# TYPE b counter\nb_total{z=\"}\"} 1\n# HELP c C.\n# TYPE c gauge\nc 1\n# EOF\n";
    let families = parse(text);
    let found: Vec<_> = families
        .iter()
        .map(|(name, family)| (name.as_str(), family.kind.as_str(), family.labels.join(",")))
        .collect();
    let expected = [
        ("a_seconds", "histogram", "x".to_owned()),
        ("b_total", "counter", "z".to_owned()),
        ("c", "gauge", String::new()),
    ];
    assert_eq!(found, expected);
    assert_eq!(families["a_seconds"].samples, 2);
}
