//! A decision in the form in which two schedulers are compared: clusters and the reason of the condition `Scheduled`.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::binding::TargetCluster;
use berth_core::{Explanation, Outcome, ScheduleError};

use crate::binding::Binding;
use crate::rules::condition::{Reason, stored};
use crate::rules::plan::Plan;

/// Clusters by name, and the reason of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prediction {
    clusters: BTreeMap<String, TargetCluster>,
    reason: String,
}

impl Prediction {
    fn new(clusters: &[TargetCluster], reason: impl Into<String>) -> Self {
        let clusters = clusters.iter();
        Self {
            clusters: clusters
                .map(|target| (target.name.clone(), target.clone()))
                .collect(),
            reason: reason.into(),
        }
    }

    /// Returns the decision that a binding contains.
    pub(super) fn written(binding: &Binding) -> Self {
        let condition = stored(&binding.status);
        Self::new(
            &binding.spec.clusters,
            condition.map_or("", |condition| &condition.reason),
        )
    }

    /// Returns what a scheduler would write for an outcome.
    pub(super) fn of(binding: &Binding, placement_json: &str, outcome: &Outcome) -> Self {
        let plan = Plan::of(binding, placement_json, outcome);
        let clusters = plan.targets.as_deref().unwrap_or(&binding.spec.clusters);
        let reason = match &outcome.result {
            Ok(_) => Reason::Success,
            Err(ScheduleError::NoFit(_)) => Reason::NoClusterFit,
            Err(ScheduleError::Plugin(error)) if error.is_unschedulable() => Reason::Unschedulable,
            Err(ScheduleError::Plugin(_)) => Reason::SchedulerError,
        };
        Self::new(clusters, reason.as_str())
    }

    /// Describes each cluster that the other decision has, and this one has not, by the stage that it reached.
    pub(super) fn explain_missing(&self, other: &Self, explanation: &Explanation) -> String {
        let explained = explanation.clusters();
        let missing = other
            .clusters
            .keys()
            .filter(|name| !self.clusters.contains_key(*name));
        let reasons: Vec<String> = missing
            .map(|name| {
                let cluster = explained.and_then(|clusters| clusters.get(name));
                match cluster {
                    None => format!("{name}: not in the fleet"),
                    Some(cluster) => match &cluster.refusal {
                        Some(refusal) => format!("{name}: {}: {}", refusal.plugin, refusal.reason),
                        None => format!("{name}: {:?}", cluster.stage),
                    },
                }
            })
            .collect();
        reasons.join("; ")
    }
}

/// Writes `m1:2, m2 (Success)`.
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, target) in self.clusters.values().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", target.name)?;
            if target.replicas != 0 {
                write!(f, ":{}", target.replicas)?;
            }
        }
        if self.clusters.is_empty() {
            f.write_str("no cluster")?;
        }
        write!(f, " ({})", self.reason)
    }
}
