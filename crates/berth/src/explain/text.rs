//! The report of `berth explain` as text. The result, its cause and the smallest fixes come first, then the details.

use std::fmt::Write as _;

use berth_engine::{DivisionOperation, GroupChoice, ScheduledReason, Stage};
use berth_explain::{
    ClusterReport, DecisionSource, Fix, Report, Share, SourceKind, StageCount, TermOutcome,
};

use crate::columns::{align, cell};

/// Maximum number of listed clusters. The table of clusters lists all clusters with the workload in addition.
const MAX_ROWS: usize = 30;
/// Maximum number of listed groups of a spread constraint.
const MAX_GROUPS: usize = 8;
/// Maximum number of reasons in the summary.
const MAX_REASONS: usize = 5;

/// Renders a report. If `cluster` is set, only this cluster is described, in detail.
pub(crate) fn render(report: &Report, cluster: Option<&str>) -> String {
    let mut out = String::new();
    header(report, &mut out);
    if let Some(cluster) = cluster.and_then(|name| report.cluster(name)) {
        cluster_details(report, cluster, &mut out);
    } else {
        terms(report, &mut out);
        selection(report, &mut out);
        division(report, &mut out);
        clusters(report, &mut out);
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn header(report: &Report, out: &mut String) {
    let binding = &report.binding;
    let name = match &binding.namespace {
        Some(namespace) => format!("{namespace}/{}", binding.name),
        None => binding.name.clone(),
    };
    let workload = binding.resource.name.as_deref().unwrap_or("-");
    let replicas = match binding.replicas {
        Some(1) => ", 1 replica".to_owned(),
        Some(replicas) => format!(", {replicas} replicas"),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "{} {name}: {} {workload}{replicas}, {}",
        binding.kind,
        binding.resource.kind,
        binding.strategy.as_str()
    );
    let verdict = &report.verdict;
    let with_replicas = binding.replicas.is_some();
    if let Some(source) = &report.source {
        decision_source(source, with_replicas, out);
    }
    if report.is_placed() {
        // A decision that was not made must not read as if the workload were there.
        let is_other = report
            .recorded
            .as_ref()
            .is_none_or(|recorded| !recorded.agrees);
        let word = match report.source.as_ref().map(|source| source.origin) {
            Some(SourceKind::Recomputed) if is_other => "Would be placed",
            _ => "Placed",
        };
        let _ = writeln!(
            out,
            "{word}: {} ({})",
            shares(&verdict.clusters, with_replicas),
            verdict.summary
        );
    } else {
        let _ = writeln!(
            out,
            "Not placed ({}): {}",
            verdict.reason.as_str(),
            verdict.summary
        );
    }
    let is_record = report
        .source
        .as_ref()
        .is_some_and(|source| source.origin == SourceKind::Record);
    if let Some(recorded) = &report.recorded {
        let comparison = match (is_record, recorded.agrees) {
            (true, true) => "equals the decision",
            (true, false) => "differs from the decision",
            (false, true) => "the decision would be the same now",
            (false, false) => "the decision would differ now",
        };
        let _ = writeln!(
            out,
            "Recorded: {}; {comparison}",
            shares(&recorded.clusters, with_replicas),
        );
        let conditions = recorded.condition.iter().filter(|c| c.status != "True");
        for condition in conditions {
            let _ = writeln!(
                out,
                "Condition: {}: {}",
                condition.reason, condition.message
            );
        }
    }
    moves(report, out);
    if !verdict.counts.is_empty() {
        let _ = writeln!(out, "\nClusters without the workload:");
        for count in verdict.counts.iter().take(MAX_REASONS) {
            let _ = writeln!(out, "  {}", reason(count));
        }
        if verdict.counts.len() > MAX_REASONS {
            let _ = writeln!(
                out,
                "  and {} more reasons",
                verdict.counts.len() - MAX_REASONS
            );
        }
    }
    if !report.is_placed() {
        let _ = writeln!(out, "\nSmallest fixes, each checked with the engine:");
        fixes(&report.fixes, with_replicas, out);
    }
}

/// Writes the unfinished moves of the binding, and its clusters from which evictions are paused.
fn moves(report: &Report, out: &mut String) {
    if let Some(migration) = &report.migration {
        if let Some(condition) = &migration.condition {
            let _ = writeln!(
                out,
                "Moving: {}: {}",
                condition.reason_in_words(),
                condition.message
            );
        }
        for eviction in &migration.evictions {
            let _ = writeln!(out, "Evicted from {}: {eviction}", eviction.from);
        }
        if !migration.may_return_to.is_empty() {
            let _ = writeln!(out, "May return to: {}", migration.may_return_to.join(", "));
        }
    }
    for paused in &report.evictions_paused {
        let _ = writeln!(
            out,
            "Evictions paused: {}: {}",
            paused.clusters.join(", "),
            paused.message
        );
    }
}

/// Writes whether the explained decision is recorded or computed. For a recorded decision, also writes the decision for
/// the current clusters if it differs.
fn decision_source(source: &DecisionSource, with_replicas: bool, out: &mut String) {
    if source.origin == SourceKind::Recomputed {
        let reason = source.reason.as_deref().unwrap_or_default();
        let _ = writeln!(out, "Recomputed from the present clusters: {reason}");
        return;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let _ = writeln!(
        out,
        "Decided: {} by {} ({}), from the scheduler's record",
        text(&source.time),
        text(&source.scheduler_name),
        text(&source.trigger)
    );
    let _ = match &source.now {
        None => writeln!(out, "Now: the same decision would be made"),
        Some(verdict) if verdict.reason == ScheduledReason::Success => writeln!(
            out,
            "Now: the decision would differ: {}",
            shares(&verdict.clusters, with_replicas)
        ),
        Some(verdict) => writeln!(
            out,
            "Now: the decision would differ: {}",
            verdict.message.as_deref().unwrap_or(&verdict.summary)
        ),
    };
}

fn reason(count: &StageCount) -> String {
    let clusters = match count.clusters {
        1 => "1 cluster".to_owned(),
        clusters => format!("{clusters} clusters"),
    };
    match &count.plugin {
        Some(plugin) => format!("{clusters}: {} ({plugin})", count.reason),
        None => format!("{clusters}: {}", count.reason),
    }
}

fn fixes(fixes: &[Fix], with_replicas: bool, out: &mut String) {
    if fixes.is_empty() {
        let _ = writeln!(out, "  none found");
    }
    for (index, fix) in fixes.iter().enumerate() {
        let _ = writeln!(
            out,
            "  {}. {}\n     result: {}",
            index + 1,
            fix.summary,
            shares(&fix.result, with_replicas)
        );
    }
}

fn terms(report: &Report, out: &mut String) {
    if report.terms.iter().all(|term| term.name.is_none()) {
        return;
    }
    let _ = writeln!(out, "\nAffinity terms:");
    for term in &report.terms {
        let outcome = match term.outcome {
            TermOutcome::Used => format!("used, {} clusters pass", term.passing),
            TermOutcome::Failed => term.failure.clone().unwrap_or_else(|| "failed".to_owned()),
            TermOutcome::Skipped => "skipped, because a later term is in use".to_owned(),
            TermOutcome::NotTried => "not tried, because an earlier term fits".to_owned(),
        };
        let _ = writeln!(out, "  {}: {outcome}", cell(term.name.as_deref()));
    }
}

fn selection(report: &Report, out: &mut String) {
    let Some(selection) = &report.selection else {
        return;
    };
    for choice in &selection.choices {
        choice_lines(choice, out);
    }
}

fn choice_lines(choice: &GroupChoice, out: &mut String) {
    let max = choice
        .max
        .map_or_else(|| "no".to_owned(), |max| max.to_string());
    let _ = writeln!(
        out,
        "\nSpread by {} (minGroups {}, maxGroups {max}):",
        choice.by, choice.min
    );
    for group in choice.groups.iter().take(MAX_GROUPS) {
        let _ = writeln!(
            out,
            "  {} {}: score {}, {} available replicas{}",
            if group.chosen { "chosen" } else { "      " },
            group.name,
            group.score,
            group.available,
            if choice.by == "cluster" {
                String::new()
            } else {
                format!(", {} clusters", group.clusters.len())
            }
        );
    }
    if choice.groups.len() > MAX_GROUPS {
        let _ = writeln!(
            out,
            "         and {} more",
            choice.groups.len() - MAX_GROUPS
        );
    }
}

fn division(report: &Report, out: &mut String) {
    for step in &report.division {
        let operation = match step.operation {
            DivisionOperation::Copy => continue,
            DivisionOperation::Keep => "kept",
            DivisionOperation::DivideAll => "divided",
            DivisionOperation::Add => "added",
            DivisionOperation::Limit => "divided within the limits",
            DivisionOperation::Spread => "after moving some for minGroups",
            DivisionOperation::Shrink => "remaining after scaling down",
        };
        let tier = step
            .tier
            .map(|tier| format!(" in tier {tier}"))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "\nDivision{tier}: {} replicas {operation}",
            step.replicas
        );
        let rows: Vec<Vec<String>> = step
            .shares
            .iter()
            .take(MAX_ROWS)
            .map(|share| {
                vec![
                    share.cluster.clone(),
                    share.weight.to_string(),
                    format!("{:.2}", share.exact),
                    share.floor.to_string(),
                    format!("{:+}", share.remainder),
                    share.replicas.to_string(),
                ]
            })
            .collect();
        let header = [
            "CLUSTER",
            "WEIGHT",
            "EXACT",
            "FLOOR",
            "REMAINDER",
            "REPLICAS",
        ];
        indent(&align(&header, &rows), out);
    }
}

fn clusters(report: &Report, out: &mut String) {
    let _ = writeln!(out);
    let is_placed = |cluster: &&ClusterReport| cluster.stage == Stage::Placed;
    let placed = report.clusters.iter().filter(is_placed);
    let others = report
        .clusters
        .iter()
        .filter(|c| !is_placed(c))
        .take(MAX_ROWS);
    let rows: Vec<Vec<String>> = placed.chain(others).map(row).collect();
    let shown = rows.len();
    let header = ["CLUSTER", "STAGE", "REPLICAS", "SCORE", "AVAILABLE", "WHY"];
    out.push_str(&align(&header, &rows));
    let hidden = report.clusters.len() - shown;
    if hidden > 0 {
        let _ = writeln!(
            out,
            "and {hidden} more; --cluster NAME or -o json shows them"
        );
    }
    let changeable: Vec<(&str, &Fix)> = report
        .clusters
        .iter()
        .filter_map(|cluster| Some((&*cluster.name, cluster.fixes.first()?)))
        .take(MAX_ROWS)
        .collect();
    if changeable.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nSmallest changes that would place the workload on these clusters:"
    );
    for (name, fix) in changeable {
        let _ = writeln!(out, "  {name}: {}", fix.summary);
    }
}

fn row(cluster: &ClusterReport) -> Vec<String> {
    vec![
        cluster.name.clone(),
        stage(cluster.stage).to_owned(),
        cell(cluster.replicas),
        cell(cluster.score),
        cell(cluster.minimum.as_ref().map(|minimum| minimum.replicas)),
        cluster.why.clone(),
    ]
}

fn cluster_details(report: &Report, cluster: &ClusterReport, out: &mut String) {
    let with_replicas = report.binding.replicas.is_some();
    let _ = writeln!(
        out,
        "\n{}: {}: {}",
        cluster.name,
        stage(cluster.stage),
        cluster.why
    );
    if let Some(before) = cluster.before {
        let _ = writeln!(out, "  replicas before the decision: {before}");
    }
    for score in &cluster.scores {
        let _ = writeln!(
            out,
            "  score of {} with weight {}: {}",
            score.plugin, score.weight, score.weighted
        );
    }
    for input in &cluster.inputs {
        let _ = writeln!(out, "  {}: {}", input.plugin, input.description);
    }
    for estimate in &cluster.estimates {
        let is_used = cluster
            .minimum
            .as_ref()
            .is_some_and(|minimum| minimum.estimator == estimate.estimator);
        let estimated = match estimate.replicas {
            Some(replicas) => format!("{replicas} available replicas"),
            None => "no estimate".to_owned(),
        };
        let _ = writeln!(
            out,
            "  {}: {estimated}{}",
            estimate.estimator,
            if is_used {
                " (used, because it is the lowest)"
            } else {
                ""
            }
        );
    }
    if cluster.stage != Stage::Placed {
        let _ = writeln!(
            out,
            "\nSmallest changes that would place the workload on {}, each checked with the engine:",
            cluster.name
        );
        fixes(&cluster.fixes, with_replicas, out);
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Deleting => "deleting",
        Stage::Filtered => "filtered",
        Stage::Considered => "not selected",
        Stage::Selected => "no replicas",
        Stage::Placed => "placed",
    }
}

fn shares(shares: &[Share], with_replicas: bool) -> String {
    if shares.is_empty() {
        return "no cluster".to_owned();
    }
    let one = |share: &Share| {
        if with_replicas {
            format!("{}:{}", share.name, share.replicas)
        } else {
            share.name.clone()
        }
    };
    let shown: Vec<String> = shares.iter().take(MAX_ROWS).map(one).collect();
    match shares.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn indent(text: &str, out: &mut String) {
    for line in text.lines() {
        let _ = writeln!(out, "  {line}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the report about the recorded or computed decision for a binding that has two replicas on `m1`.
    fn report(cluster: &str, source: DecisionSource) -> Report {
        let report = json!({
            "apiVersion": "explain.berth.io/v1", "kind": "DecisionReport",
            "binding": { "kind": "ResourceBinding", "namespace": "shop", "name": "web", "replicas": 2,
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment" }, "strategy": "Aggregated" },
            "verdict": { "reason": "Success", "clusters": [{ "name": cluster, "replicas": 2 }],
                "summary": "2 replicas on 1 of 2 clusters", "counts": [] },
            "recorded": { "clusters": [{ "name": "m1", "replicas": 2 }], "agrees": cluster == "m1" },
            "terms": [], "clusters": [],
        });
        let report: Report = serde_json::from_value(report).unwrap();
        Report {
            source: Some(source),
            ..report
        }
    }

    #[test]
    fn the_text_of_a_recorded_decision_shows_whether_the_current_decision_is_the_same() {
        let differs = report("m2", DecisionSource::default()).verdict;
        for (now, line) in [
            (None, "Now: the same decision would be made"),
            (Some(differs), "Now: the decision would differ: m2:2"),
        ] {
            let source = DecisionSource {
                origin: SourceKind::Record,
                now,
                ..DecisionSource::default()
            };
            let text = render(&report("m1", source), None);
            assert_eq!(text.lines().nth(2), Some(line), "{text}");
            assert!(
                text.contains("Recorded: m1:2; equals the decision"),
                "{text}"
            );
        }
    }

    #[test]
    fn moves_follow_the_result() {
        let condition = json!({ "reason": "LastHealthyCopy", "message": "m1 keeps 2", "since": "2026-01-01T00:00:00Z" });
        let eviction =
            json!({ "from": "m1", "reason": "TaintUntolerated", "producer": "TaintManager" });
        for (migration, paused, expected) in [
            (json!(null), json!([]), &[][..]),
            (
                json!({ "condition": condition, "evictions": [eviction], "mayReturnTo": ["m1", "m3"] }),
                json!([{ "clusters": ["m2", "m4"], "message": "3 of 4 are lost" }]),
                &[
                    "Moving: keeping the last healthy copy: m1 keeps 2",
                    "Evicted from m1: TaintUntolerated (TaintManager)",
                    "May return to: m1, m3",
                    "Evictions paused: m2, m4: 3 of 4 are lost",
                ],
            ),
        ] {
            let mut report = report("m1", DecisionSource::default());
            report.migration = serde_json::from_value(migration).unwrap();
            report.evictions_paused = serde_json::from_value(paused).unwrap();
            let text = render(&report, None);
            let lines: Vec<&str> = text
                .lines()
                .skip(4)
                .take_while(|line| !line.is_empty())
                .collect();
            assert_eq!(lines, expected, "{text}");
        }
    }

    #[test]
    fn without_a_usable_record_the_reason_is_in_the_first_lines() {
        let source = DecisionSource {
            origin: SourceKind::Recomputed,
            reason: Some("unreachable".to_owned()),
            ..DecisionSource::default()
        };
        let text = render(&report("m2", source), None);
        let line = text.lines().nth(1).unwrap();
        let expected = "Recomputed from the present clusters: unreachable";
        assert!(line.starts_with(expected), "{text}");
    }
}
