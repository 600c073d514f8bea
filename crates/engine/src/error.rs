//! Errors of decisions: the reasons why a workload is not scheduled. Their texts are the same as in Karmada.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::framework::PluginError;
use crate::scheduled_reason::ScheduledReason;

/// The reason why a workload is not scheduled. Conditions and events contain its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No cluster passes the filters. The scheduler removes the clusters from the binding.
    #[error(transparent)]
    NoFit(#[from] FitError),
    /// A plugin aborted the attempt. The binding keeps its clusters.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl ScheduleError {
    /// Returns the reason that the scheduler sets in the condition `Scheduled`.
    pub fn reason(&self) -> ScheduledReason {
        match self {
            Self::NoFit(_) => ScheduledReason::NoClusterFit,
            Self::Plugin(error) => error.reason(),
        }
    }
}

/// The error of a decision in which no cluster passes the filters. It contains a reason for each cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    clusters: usize,
    reasons: Vec<(Arc<str>, Cow<'static, str>)>,
}

impl FitError {
    /// Creates the error. `clusters` is the number of all clusters. `reasons` contains an entry for each cluster that
    /// is not being deleted.
    pub fn new(clusters: usize, reasons: Vec<(Arc<str>, Cow<'static, str>)>) -> Self {
        Self { clusters, reasons }
    }

    /// Returns the number of clusters in the fleet.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// Returns the name and the reason of each cluster that is not being deleted.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        self.reasons
            .iter()
            .map(|(name, reason)| (&**name, &**reason))
    }
}

impl std::error::Error for FitError {}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} clusters are available: ", self.clusters)?;
        if self.reasons.is_empty() {
            return f.write_str("no cluster exists.");
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, reason) in &self.reasons {
            *counts.entry(reason).or_default() += 1;
        }
        // Like Karmada, sort the texts including their counts.
        let mut parts: Vec<String> = counts
            .into_iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        parts.sort_unstable();
        write!(f, "{}.", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_text() {
        let reasons = |list: &[(&str, &'static str)]| {
            list.iter()
                .map(|&(name, reason)| (Arc::from(name), Cow::Borrowed(reason)))
                .collect::<Vec<_>>()
        };
        for (error, text) in [
            (
                FitError::new(0, vec![]),
                "0/0 clusters are available: no cluster exists.",
            ),
            (
                FitError::new(2, vec![]),
                "0/2 clusters are available: no cluster exists.",
            ),
            (
                FitError::new(
                    3,
                    reasons(&[("m1", "was b"), ("m2", "was a"), ("m3", "was b")]),
                ),
                "0/3 clusters are available: 1 was a, 2 was b.",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
