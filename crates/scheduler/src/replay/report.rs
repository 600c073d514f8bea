//! Comparison of the results with the recorded ones.
//!
//! Fields are only added, never removed or changed in meaning, as long as [`API_VERSION`] stays.

use std::collections::BTreeSet;
use std::path::Path;

use berth_core::Explanation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;

use super::Decided;
use crate::decision_log::format::{Decision, DecisionResult};

/// The version of the format.
pub const API_VERSION: &str = "replay.berth.io/v1";

/// The kind of the format.
pub const KIND: &str = "ReplayReport";

/// The difference between a result and the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Placed on other clusters, or with other replicas.
    Moved,
    /// Placed before, and not any more.
    Failed,
    /// Not placed before.
    NewlyPlaced,
    /// Not placed in both cases, for another reason.
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
    /// All decisions.
    pub decisions: u64,
    /// Equal results.
    pub equal: u64,
    /// Placed differently.
    pub moved: u64,
    /// Placed before, and not any more.
    pub failed: u64,
    /// Not placed before.
    pub newly_placed: u64,
    /// Not placed in both cases, for another reason.
    pub failed_differently: u64,
    /// Not decided again, because not all inputs are known.
    pub not_repeated: u64,
    /// Entries that the log lacks.
    pub dropped: u64,
}

/// One different result.
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
    /// The result of the replay.
    pub replayed: DecisionResult,
    /// The reason why clusters of the recorded result are not in the new one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// `replay.berth.io/v1`.
    pub api_version: &'static str,
    /// `ReplayReport`.
    pub kind: &'static str,
    /// The number of decisions by result.
    pub counts: Counts,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// Inputs that could not be repeated, and incomplete files.
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

    /// Reports whether a further difference would be described.
    pub(super) fn describes_more(&self) -> bool {
        self.differences.len() < self.limit
    }

    pub(super) fn gap(&mut self, dropped: u64) {
        self.counts.dropped += dropped;
    }

    pub(super) fn truncated(&mut self, path: &Path) {
        self.notes.push(format!(
            "{} has no end: its scheduler still runs or was killed; read up to the last complete entry",
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
        if self.describes_more() {
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
                "{} decisions are missing in the log: the scheduler decided faster than the log was written",
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

/// Describes the stage at which each recorded cluster was lost.
fn reasons(
    recorded: &DecisionResult,
    replayed: &DecisionResult,
    explanation: &Explanation,
) -> Vec<String> {
    let now: BTreeSet<&str> = replayed.clusters.iter().map(|c| c.name.as_str()).collect();
    let explained = explanation.clusters();
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

fn stage(stage: berth_core::Stage) -> &'static str {
    use berth_core::Stage;
    match stage {
        Stage::Deleting => "is being deleted",
        Stage::Filtered => "filtered",
        Stage::Considered => "not selected",
        Stage::Selected => "no replicas",
        Stage::Placed => "placed",
    }
}
