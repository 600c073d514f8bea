//! The report of `berth diff` as text, with a line for each field and value, as in a unified diff.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use berth_plan::diff::{
    ClusterDiff, DiffReport, FieldDiff, MemberDiff, Origin, Variation, shortened,
};

use crate::columns::{align, cell, plain};
use crate::field_lines::{Side, field_lines};

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

#[derive(Clone, Copy)]
enum Colour {
    Bold,
    Red,
    Green,
    Yellow,
}

impl Style {
    /// Returns the style for standard output: colours on a terminal, unless `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let is_set = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        if std::io::stdout().is_terminal() && !is_set && !is_dumb {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    fn paint(self, colour: Colour, text: &str) -> String {
        let code = match (self, colour) {
            (Self::Plain, _) => return text.to_owned(),
            (Self::Coloured, Colour::Bold) => 1,
            (Self::Coloured, Colour::Red) => 31,
            (Self::Coloured, Colour::Green) => 32,
            (Self::Coloured, Colour::Yellow) => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Renders a report.
pub(super) fn render(report: &DiffReport, style: Style) -> String {
    let mut out = String::new();
    let binding = &report.binding;
    let _ = writeln!(
        out,
        "{} {}: {} {}",
        binding.kind, binding.name, binding.resource_kind, binding.resource_name
    );
    for cluster in &report.clusters {
        render_cluster(cluster, style, &mut out);
    }
    if !report.between_clusters.is_empty() {
        let _ = writeln!(out, "\nWanted values that differ between the clusters:");
        out.push_str(&variations(&report.between_clusters));
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn render_cluster(cluster: &ClusterDiff, style: Style, out: &mut String) {
    let (colour, summary) = match &cluster.member {
        MemberDiff::Equal => (Colour::Green, "equals the wanted object".to_owned()),
        MemberDiff::Different { fields } => {
            let fields = match fields.len() {
                1 => "1 field".to_owned(),
                count => format!("{count} fields"),
            };
            (
                Colour::Red,
                format!("differs from the wanted object in {fields}"),
            )
        }
        MemberDiff::Absent => (Colour::Red, "has no such object".to_owned()),
        MemberDiff::NoWork => (
            Colour::Red,
            "has no Work yet, so nothing is wanted".to_owned(),
        ),
        MemberDiff::Unreadable { reason } => (Colour::Yellow, format!("cannot be read: {reason}")),
    };
    let name = style.paint(Colour::Bold, &cluster.cluster);
    let _ = writeln!(out, "\n{name}: {}", style.paint(colour, &plain(&summary)));
    for note in &cluster.notes {
        let _ = writeln!(out, "  note: {}", plain(note));
    }
    if let MemberDiff::Different { fields } = &cluster.member {
        let _ = writeln!(out, "  wanted -> member");
        render_fields(fields, style, out);
    }
    if !cluster.template.is_empty() {
        let policies = match &cluster.override_policies[..] {
            [] => String::new(),
            policies => format!(" (by {})", policies.join(", ")),
        };
        let _ = writeln!(out, "  template -> wanted{policies}");
        render_fields(&cluster.template, style, out);
    }
}

fn render_fields(fields: &[FieldDiff], style: Style, out: &mut String) {
    for diff in fields {
        let field = &diff.field;
        if diff.origin == Some(Origin::Share) {
            let (old, new) = (cell(diff.old.as_ref()), cell(diff.new.as_ref()));
            let _ = writeln!(out, "      {field}: {old} -> {new} (this cluster's share)");
            continue;
        }
        for line in field_lines(field, diff.old.as_ref(), diff.new.as_ref()) {
            let colour = match line.side {
                Side::Old => Colour::Red,
                Side::New => Colour::Green,
            };
            let _ = writeln!(out, "    {}", style.paint(colour, &line.text));
        }
    }
}

fn variations(variations: &[Variation]) -> String {
    let rows: Vec<Vec<String>> = variations
        .iter()
        .flat_map(|variation| {
            variation.values.iter().map(|value| {
                let text = value.value.as_ref().map(shortened);
                vec![
                    variation.field.clone(),
                    text.unwrap_or_else(|| "-".to_owned()),
                    value.clusters.join(","),
                ]
            })
        })
        .collect();
    align(&["FIELD", "VALUE", "CLUSTERS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_optional() {
        assert_eq!(Style::Plain.paint(Colour::Red, "x"), "x");
        assert_eq!(Style::Coloured.paint(Colour::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
