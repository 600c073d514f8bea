//! Tests of the table of values in `deploy/chart/README.md`. The table is generated from the comments in `values.yaml`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{assert_current, cell, read};

const PAGE: &str = "deploy/chart/README.md";
const VALUES: &str = "deploy/chart/values.yaml";
const START: &str = "<!-- Generated from values.yaml: `just reference` writes this table. -->\n";

/// A row of the table, which describes one value of the chart.
struct Row {
    path: String,
    default: String,
    meaning: String,
}

/// Returns a row for each key of the values file, except the keys inside `resources` and `labels`. A key that contains
/// keys with rows has an empty default.
fn rows(text: &str) -> Vec<Row> {
    let values: Value = serde_saphyr::from_str(text).unwrap();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        let (indent, content) = (line.len() - line.trim_start().len(), line.trim_start());
        if let Some(words) = content.strip_prefix('#') {
            // A `#` without a space starts a commented-out example. Other comments describe the next key.
            if words.starts_with(' ') {
                comment.push(words.trim());
            }
            continue;
        }
        let key = content
            .split_once(':')
            .filter(|_| !content.starts_with("- "));
        let Some((key, _)) = key else {
            if content.is_empty() {
                comment.clear();
            }
            continue;
        };
        path.retain(|(other, _)| *other < indent);
        path.push((indent, key.trim().to_owned()));
        let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
        let found = names
            .iter()
            .try_fold(&values, |value, name| value.get(name));
        let Some(value) = found else { continue };
        // Each of these maps is one value, which the chart copies into a manifest as a whole.
        let is_opaque = |name: &&str| ["resources", "labels"].contains(name);
        let (last, outer) = names.split_last().unwrap();
        if !outer.iter().any(is_opaque) {
            let is_group = value.as_object().is_some_and(|map| !map.is_empty()) && !is_opaque(last);
            rows.push(Row {
                path: names.join("."),
                default: if is_group {
                    String::new()
                } else {
                    value.to_string()
                },
                meaning: comment.join(" "),
            });
        }
        comment.clear();
    }
    rows
}

fn table() -> String {
    let mut text = "\n| Value | Default | Meaning |\n|---|---|---|\n".to_owned();
    for row in rows(&read(VALUES)) {
        let default = match row.default.as_str() {
            "" => String::new(),
            default => format!("`{}`", cell(default)),
        };
        writeln!(
            text,
            "| `{}` | {default} | {} |",
            row.path,
            cell(&row.meaning)
        )
        .unwrap();
    }
    text
}

/// Checks that the table in the README equals the table generated from `values.yaml`.
#[test]
fn the_table_of_values_is_current() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(START).unwrap();
    // The table ends with an empty line.
    let after = rest
        .trim_start()
        .split_once("\n\n")
        .map_or("", |(_, after)| after);
    let fresh = format!(
        "{before}{START}{}{}{after}",
        table(),
        if after.is_empty() { "" } else { "\n" }
    );
    assert_current(PAGE, &fresh);
}

/// Checks that each key of the second level of `values.yaml`, and each top-level key that is no map, has a row.
#[test]
fn every_value_has_a_row() {
    let values: Value = serde_saphyr::from_str(&read(VALUES)).unwrap();
    let rows = rows(&read(VALUES));
    for (name, value) in values.as_object().unwrap() {
        let inner: Vec<String> = match value.as_object() {
            Some(map) => map.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        };
        for path in inner {
            assert!(rows.iter().any(|row| row.path == path), "no row for {path}");
        }
    }
}

/// Checks that a comment describes each key of `values.yaml`.
#[test]
fn every_value_has_a_meaning() {
    for row in rows(&read(VALUES)) {
        assert!(
            !row.meaning.is_empty(),
            "{VALUES}: {} has no comment",
            row.path
        );
    }
}
