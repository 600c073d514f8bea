//! The diagnosis of a workload as text: the verdict and the next action come first, then the stations, and a row for each
//! cluster that is not well.

use std::fmt::Write as _;

use berth_diagnosis::{CopyRow, CopyState, Diagnosis};
use berth_plan::explain::name_list;

use crate::columns::{align, plain};
use crate::field_lines::field_lines;

/// Maximum number of listed clusters.
const MAX_ROWS: usize = 20;

/// Renders a diagnosis of a workload, such as `Deployment shop/web`.
pub(super) fn render(workload: &str, diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{workload} is {}: {}",
        diagnosis.health,
        plain(&diagnosis.verdict)
    );
    if let Some(fix) = &diagnosis.fix {
        let _ = writeln!(out, "Fix: {}", plain(fix));
    }
    if let Some(since) = diagnosis.since {
        let _ = writeln!(out, "Since: {since:.0}");
    }
    let _ = writeln!(out);
    stations(diagnosis, &mut out);
    overrides(diagnosis, &mut out);
    copies(diagnosis, &mut out);
    other_findings(diagnosis, &mut out);
    for (cluster, warnings) in &diagnosis.warnings {
        let _ = writeln!(out, "\nNewest warnings in {cluster}:");
        for warning in warnings {
            let _ = writeln!(out, "  {}", plain(warning));
        }
    }
    out
}

fn stations(diagnosis: &Diagnosis, out: &mut String) {
    let rows = diagnosis.stations.iter().map(|report| {
        vec![
            report.station.as_str().to_owned(),
            report.health.as_str().to_owned(),
            plain(&report.summary),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    out.push_str(&align(&["STATION", "STATE", "DETAILS"], &rows));
}

/// Writes the fields that override policies change.
fn overrides(diagnosis: &Diagnosis, out: &mut String) {
    for changes in diagnosis.overrides.iter().take(MAX_ROWS) {
        let Some(fields) = changes.fields.as_ref().filter(|fields| !fields.is_empty()) else {
            continue;
        };
        let _ = writeln!(
            out,
            "\nChanged by {} in {}:",
            changes.policies.join(", "),
            name_list(&changes.clusters)
        );
        let lines = fields.iter().flat_map(|change| {
            field_lines(&change.field, change.old.as_ref(), change.new.as_ref())
        });
        for line in lines.take(MAX_ROWS) {
            let _ = writeln!(out, "  {}", line.text);
        }
    }
}

/// Writes the copies that are not well, and the number of the others.
fn copies(diagnosis: &Diagnosis, out: &mut String) {
    let matters = |copy: &&CopyRow| copy.leaving || copy.state != CopyState::Well;
    let shown = diagnosis.copies.iter().filter(matters).take(MAX_ROWS);
    let rows: Vec<Vec<String>> = shown
        .map(|copy| {
            let state = copy.state.as_str();
            let state = if copy.leaving {
                format!("{state}, leaves")
            } else {
                state.to_owned()
            };
            vec![copy.cluster.clone(), copy.replicas(), state]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out);
    out.push_str(&align(&["CLUSTER", "READY", "STATE"], &rows));
    let all = diagnosis.copies.iter().filter(matters).count();
    let hidden = all - rows.len();
    if hidden > 0 {
        let _ = writeln!(out, "and {hidden} more that are not well");
    }
    match diagnosis.copies.len() - all {
        0 => {}
        well => {
            let _ = writeln!(out, "and {well} more, all well");
        }
    }
}

/// Writes the findings after the worst, each with its next action.
fn other_findings(diagnosis: &Diagnosis, out: &mut String) {
    let others = diagnosis.findings.iter().skip(1).take(MAX_ROWS);
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nMore findings:");
    for found in others {
        let _ = writeln!(
            out,
            "  {}: {}: {}",
            found.station.as_str(),
            found.health,
            plain(&found.message)
        );
        if let Some(fix) = &found.fix {
            let _ = writeln!(out, "    fix: {}", plain(fix));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_verdict_and_the_next_action_come_first() {
        let diagnosis = json!({
            "health": "degraded", "verdict": "1 of 2 replicas are ready in m2; placed and applied",
            "reason": "NotReady", "fix": "look at the pods in m2", "since": "2026-01-01T00:00:00Z",
            "stations": [
                { "station": "scheduling", "health": "well", "summary": "placed in m1: 2, m2: 2" },
                { "station": "run", "health": "degraded", "summary": "1 of 2 replicas are ready in m2" },
            ],
            "findings": [
                { "station": "run", "health": "degraded", "reason": "NotReady", "message": "1 of 2 replicas are ready in m2" },
                { "station": "dispatch", "health": "waiting", "reason": "Migrating", "message": "it moves", "fix": "wait" },
            ],
            "overrides": [{ "clusters": ["m1", "m2"], "policies": ["OverridePolicy web"],
                "fields": [{ "field": "spec.paused", "old": true, "new": null }] }],
            "copies": [
                { "cluster": "m1", "wanted": 2, "ready": 2, "state": "well" },
                { "cluster": "m2", "wanted": 2, "ready": 1, "state": "partly" },
                { "cluster": "m3", "wanted": 2, "ready": 2, "state": "well", "leaving": true },
            ],
            "warnings": { "m2": ["BackOff: Pod web-1: restarting"] },
        });
        let diagnosis: Diagnosis = serde_json::from_value(diagnosis).unwrap();
        let expected = "\
Deployment shop/web is degraded: 1 of 2 replicas are ready in m2; placed and applied
Fix: look at the pods in m2
Since: 2026-01-01T00:00:00Z

STATION      STATE      DETAILS
scheduling   well       placed in m1: 2, m2: 2
run          degraded   1 of 2 replicas are ready in m2

Changed by OverridePolicy web in m1, m2:
  - spec.paused: true

CLUSTER   READY   STATE
m2        1/2     partly ready
m3        2/2     well, leaves
and 1 more, all well

More findings:
  dispatch: waiting: it moves
    fix: wait

Newest warnings in m2:
  BackOff: Pod web-1: restarting
";
        assert_eq!(render("Deployment shop/web", &diagnosis), expected);
    }
}
