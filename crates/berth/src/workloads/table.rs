//! The table of workloads: one line for each workload, the cause in the last column, and the next action below.

use std::fmt::Write as _;

use berth_diagnosis::{ClusterCount, WorkloadRow};
use jiff::Timestamp;

use crate::clusters::list::age;
use crate::columns::{align, cell, plain};

/// Minimum number of columns for a cause beside the other columns. On a narrower terminal, the cause is on its own line.
const MIN_REASON: usize = 40;
/// Indentation of the lines below a row.
const INDENT: usize = 2;

const REASON: &str = "REASON";
const COLUMNS: [&str; 5] = ["HEALTH", "READY", "CLUSTERS", "AGE", REASON];

/// Layout of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Header of the first column.
    pub(crate) title: &'static str,
    /// Visibility of the next actions.
    pub(crate) fixes: Fixes,
    /// Width of the terminal. `None` if the output is no terminal, so that no line is wrapped.
    pub(crate) width: Option<usize>,
}

/// Visibility of the next actions in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixes {
    Shown,
    Hidden,
}

/// Formats workloads as a table.
pub(crate) fn table(rows: &[WorkloadRow], layout: Layout, now: Timestamp) -> String {
    let header: Vec<&str> = std::iter::once(layout.title).chain(COLUMNS).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row, now)).collect();
    let aligned = align(&header, &cells);
    let mut lines = aligned.lines();
    let head = lines.next().unwrap_or_default();
    let reason_at = head.chars().count() - REASON.len();
    let beside = match layout.width {
        Some(width) => width
            .checked_sub(reason_at)
            .filter(|left| *left >= MIN_REASON),
        None => Some(usize::MAX),
    };
    let mut text = String::new();
    let below = |text: &mut String, label: &str, words: &str| {
        let indent = " ".repeat(INDENT);
        let width = layout.width.unwrap_or(usize::MAX);
        let hanging = INDENT + label.len();
        let wrapped = wrap(words, width.saturating_sub(hanging), hanging);
        let _ = writeln!(text, "{indent}{label}{wrapped}");
    };
    match beside {
        Some(_) => text.push_str(head),
        None => text.push_str(head.trim_end_matches(REASON).trim_end()),
    }
    text.push('\n');
    for (row, line) in rows.iter().zip(lines) {
        let before: String = line.chars().take(reason_at).collect();
        let reason = plain(&row.verdict);
        if let Some(width) = beside {
            let _ = writeln!(text, "{before}{}", wrap(&reason, width, reason_at));
        } else {
            let _ = writeln!(text, "{}", before.trim_end());
            below(&mut text, "", &reason);
        }
        let fix = row
            .fix
            .as_ref()
            .filter(|_| layout.fixes == Fixes::Shown && row.health_at(now).needs_attention());
        if let Some(fix) = fix {
            below(&mut text, "fix: ", &plain(fix));
        }
    }
    text
}

fn cells(row: &WorkloadRow, now: Timestamp) -> Vec<String> {
    let ClusterCount { working, all } = row.clusters;
    vec![
        plain(&row.workload()),
        row.health_at(now).to_string(),
        row.ready(),
        format!("{working}/{all}"),
        age_since(row.since, now),
        plain(&row.verdict),
    ]
}

/// Formats the time since which something is so.
pub(crate) fn age_since(since: Option<Timestamp>, now: Timestamp) -> String {
    cell(since.map(|since| age(now.duration_since(since).as_secs())))
}

/// Breaks a text between words into lines of a width, with this indentation of all lines but the first. A longer word is
/// not broken.
fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        } else if used > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use berth_test_transcripts::{Transcript, assert_snapshot};
    use serde_json::{Value, json};

    use super::*;

    fn row(name: &str, health: &str, more: &Value) -> WorkloadRow {
        let mut row = json!({ "namespace": "shop", "kind": "Deployment", "name": name, "health": health,
            "replicas": [1, 4], "clusters": [1, 2], "since": "2026-05-01T10:00:00Z",
            "verdict": "2 of 2 pods crash in member1: exit code 1; placed and applied",
            "fix": "read the logs in member1: kubectl logs -n shop deployment/web --previous" });
        for (field, value) in more.as_object().unwrap() {
            row[field] = value.clone();
        }
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_table_fits_into_each_width() {
        let message = "member2 refuses the object: admission webhook\n\u{1b}[2J \"policy.example.io\" denied the request";
        let rows = [
            row("web", "broken", &json!({})),
            row(
                "a-workload-with-a-rather-long-name",
                "stuck",
                &json!({ "verdict": message, "replicas": null, "since": null }),
            ),
            row(
                "settings",
                "degraded",
                &json!({ "kind": "ConfigMap", "dependency": true, "fix": null }),
            ),
            row("new", "waiting", &json!({})),
        ];
        let now = "2026-05-01T10:05:00Z".parse().unwrap();
        let mut tables = Transcript::new();
        for (about, width, fixes) in [
            ("no terminal", None, Fixes::Shown),
            ("no terminal, without the next actions", None, Fixes::Hidden),
            ("140 columns", Some(140), Fixes::Shown),
            ("80 columns", Some(80), Fixes::Shown),
        ] {
            let title = "WORKLOAD";
            tables.about(about);
            tables.lines(&table(
                &rows,
                Layout {
                    title,
                    fixes,
                    width,
                },
                now,
            ));
        }
        assert_snapshot!(tables);
    }

    #[test]
    fn text_is_broken_between_words() {
        for (text, width, expected) in [
            ("", 5, ""),
            ("one two", 7, "one two"),
            ("one two", 6, "one\n  two"),
            ("one two three", 7, "one two\n  three"),
            ("a-long-word b", 3, "a-long-word\n  b"),
        ] {
            assert_eq!(wrap(text, width, 2), expected);
        }
    }
}
