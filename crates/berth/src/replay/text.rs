//! The report of `berth replay` as text.

use std::fmt::Write as _;

use berth_scheduler::replay::{Change, ReplayReport};

use crate::columns;

pub(super) fn render(report: &ReplayReport) -> String {
    let counts = &report.counts;
    let mut out = String::new();
    let plural = if counts.decisions == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "{} decision{plural}: {} equal",
        counts.decisions, counts.equal
    );
    for (count, text) in [
        (counts.moved, "moved"),
        (counts.failed, "failed, and were placed before"),
        (counts.newly_placed, "newly placed, and failed before"),
        (counts.failed_differently, "failed for another reason"),
        (counts.not_repeated, "not repeated (see the notes)"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "  {count} {text}");
        }
    }
    if !report.differences.is_empty() {
        let rows = report.differences.iter().map(|difference| {
            vec![
                difference.binding.clone(),
                name(difference.change).to_owned(),
                difference.recorded.to_string(),
                difference.replayed.to_string(),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let header = ["BINDING", "CHANGE", "RECORDED", "REPLAYED"];
        out.push('\n');
        out.push_str(&columns::align(&header, &rows));
        let reasons = report
            .differences
            .iter()
            .filter(|difference| !difference.reasons.is_empty());
        let mut reasons = reasons.peekable();
        if reasons.peek().is_some() {
            out.push_str("\nWhy not as recorded:\n");
        }
        for difference in reasons {
            let _ = writeln!(
                out,
                "  {}: {}",
                difference.binding,
                difference.reasons.join("; ")
            );
        }
        let all = counts.moved + counts.failed + counts.newly_placed + counts.failed_differently;
        let shown = report.differences.len() as u64;
        if all > shown {
            let _ = writeln!(
                out,
                "\n{} further differences; --limit-differences {all} shows all",
                all - shown
            );
        }
    }
    if !report.notes.is_empty() {
        out.push_str("\nNotes:\n");
    }
    for note in &report.notes {
        let _ = writeln!(out, "  {note}");
    }
    out
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Moved => "moved",
        Change::Failed => "failed",
        Change::NewlyPlaced => "newly placed",
        Change::FailedDifferently => "failed differently",
    }
}
