//! The report of a replay, which compares the new results with the recorded results.
//!
//! Within one [`API_VERSION`], fields may be added, but no field is removed and no field changes its meaning.

use std::collections::BTreeSet;
use std::path::Path;

use berth_engine::Explanation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;

use super::Decided;
use crate::decision_log::format::{Decision, DecisionResult};

/// The `apiVersion` of the report.
pub const API_VERSION: &str = "replay.berth.io/v1";

/// The `kind` of the report.
pub const KIND: &str = "ReplayReport";

/// The kind of difference between the recorded result and the new result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Both results place the binding, but on different clusters, with different replicas or by another affinity term.
    Moved,
    /// The recorded result places the binding, and the new decision fails.
    Failed,
    /// The recorded decision failed, and the new result places the binding.
    NewlyPlaced,
    /// Both decisions fail, for different reasons.
    FailedDifferently,
}

impl Change {
    fn between(old: &DecisionResult, new: &DecisionResult) -> Option<Self> {
        match (old.failure, new.failure) {
            _ if old == new => None,
            (None, None) => Some(Self::Moved),
            (None, Some(_)) => Some(Self::Failed),
            (Some(_), None) => Some(Self::NewlyPlaced),
            (Some(_), Some(_)) => Some(Self::FailedDifferently),
        }
    }
}

/// The number of decisions by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All decisions in the log.
    pub decisions: u64,
    /// Decisions whose new result equals the recorded result.
    pub equal: u64,
    /// Decisions with the difference [`Change::Moved`].
    pub moved: u64,
    /// Decisions with the difference [`Change::Failed`].
    pub failed: u64,
    /// Decisions with the difference [`Change::NewlyPlaced`].
    pub newly_placed: u64,
    /// Decisions with the difference [`Change::FailedDifferently`].
    pub failed_differently: u64,
    /// Decisions that were not repeated, because the log or the configuration lacks an input.
    pub not_repeated: u64,
    /// Decisions that are missing in the log.
    pub dropped: u64,
}

/// A decision whose new result differs from the recorded result.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Namespace and name of the binding.
    pub binding: String,
    /// The time of the recorded decision.
    pub time: MicroTime,
    /// The kind of the difference.
    pub change: Change,
    /// The recorded result.
    pub recorded: DecisionResult,
    /// The new result.
    pub replayed: DecisionResult,
    /// The reasons why the new result lacks clusters of the recorded result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// Always [`API_VERSION`].
    pub api_version: &'static str,
    /// Always [`KIND`].
    pub kind: &'static str,
    /// The number of decisions by result.
    pub counts: Counts,
    /// The first differences, up to the limit of the options.
    pub differences: Vec<Difference>,
    /// Remarks about missing inputs, ignored plugins and extenders, and incomplete files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ReplayReport {
    /// Reports whether all repeated decisions have the recorded result.
    pub fn is_equal(&self) -> bool {
        self.counts.equal + self.counts.not_repeated == self.counts.decisions
    }
}

/// A report in progress.
#[derive(Debug)]
pub(super) struct ReportBuilder {
    counts: Counts,
    differences: Vec<Difference>,
    limit: usize,
    notes: Vec<String>,
}

impl ReportBuilder {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            counts: Counts::default(),
            differences: Vec::new(),
            limit,
            notes: Vec::new(),
        }
    }

    /// Reports whether the report contains fewer differences than its limit.
    pub(super) fn can_add_difference(&self) -> bool {
        self.differences.len() < self.limit
    }

    pub(super) fn gap(&mut self, dropped: u64) {
        self.counts.dropped += dropped;
    }

    pub(super) fn truncated(&mut self, path: &Path) {
        self.notes.push(format!(
            "{} is incomplete: its scheduler still runs or was killed; all complete entries were read",
            path.display()
        ));
    }

    pub(super) fn compare(&mut self, decision: &Decision, decided: Decided) {
        self.counts.decisions += 1;
        let Decided::Result(replayed, explanation) = decided else {
            self.counts.not_repeated += 1;
            return;
        };
        let Some(change) = Change::between(&decision.result, &replayed) else {
            self.counts.equal += 1;
            return;
        };
        *match change {
            Change::Moved => &mut self.counts.moved,
            Change::Failed => &mut self.counts.failed,
            Change::NewlyPlaced => &mut self.counts.newly_placed,
            Change::FailedDifferently => &mut self.counts.failed_differently,
        } += 1;
        if self.can_add_difference() {
            let reasons = explanation.map_or_else(Vec::new, |explanation| {
                reasons(&decision.result, &replayed, &explanation)
            });
            self.differences.push(Difference {
                binding: decision.binding.0.key.to_string(),
                time: decision.time.clone(),
                change,
                recorded: decision.result.clone(),
                replayed,
                reasons,
            });
        }
    }

    pub(super) fn finish(mut self, notes: Vec<String>) -> ReplayReport {
        self.notes.extend(notes);
        if self.counts.dropped > 0 {
            self.notes.push(format!(
                "{} decisions are missing in the log: it was written too slowly or not at all",
                self.counts.dropped
            ));
        }
        ReplayReport {
            api_version: API_VERSION,
            kind: KIND,
            counts: self.counts,
            differences: self.differences,
            notes: self.notes,
        }
    }
}

/// Returns a text for each cluster that only the recorded result contains: the reason for its exclusion from the new
/// result, or the last stage that it reached.
fn reasons(
    recorded: &DecisionResult,
    replayed: &DecisionResult,
    explanation: &Explanation,
) -> Vec<String> {
    let now: BTreeSet<&str> = replayed.clusters.iter().map(|c| c.name.as_str()).collect();
    let explained = explanation.clusters_of_last_term();
    let lost = recorded
        .clusters
        .iter()
        .map(|target| target.name.as_str())
        .filter(|name| !now.contains(name));
    lost.map(
        |name| match explained.and_then(|clusters| clusters.get(name)) {
            None => format!("{name}: not in the fleet"),
            Some(cluster) => match &cluster.refusal {
                Some(refusal) => format!("{name}: {}: {}", refusal.plugin, refusal.reason),
                None => format!("{name}: {}", stage(cluster.stage)),
            },
        },
    )
    .collect()
}

fn stage(stage: berth_engine::Stage) -> &'static str {
    use berth_engine::Stage;
    match stage {
        Stage::Deleting => "is being deleted",
        Stage::Filtered => "filtered",
        Stage::Considered => "not selected",
        Stage::Selected => "no replicas",
        Stage::Placed => "placed",
    }
}
