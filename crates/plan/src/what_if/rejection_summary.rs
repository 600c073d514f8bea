//! A summary of the reasons for which the scheduler rejected clusters for a binding.

use std::collections::BTreeMap;

use berth_engine::{Stage, TermExplanation};

/// Returns the number of clusters that got the binding, and the number of other clusters for each reason, such as
/// `1/3 clusters: 2 cluster(s) were not selected`. Karmada's message for unschedulable bindings has a similar format.
pub(crate) fn summary(term: &TermExplanation) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut placed = 0;
    for cluster in term.clusters.values() {
        let reason = match (&cluster.refusal, cluster.stage) {
            (Some(refusal), _) => refusal.reason.as_str(),
            (None, Stage::Placed) => {
                placed += 1;
                continue;
            }
            (None, Stage::Selected) => "cluster(s) got no replicas",
            (None, Stage::Considered | Stage::Filtered) => "cluster(s) were not selected",
            (None, Stage::Deleting) => "cluster(s) are being deleted",
        };
        *counts.entry(reason).or_default() += 1;
    }
    let placed = format!("{placed}/{} clusters", term.clusters.len());
    if counts.is_empty() {
        return placed;
    }
    let mut parts: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    parts.sort_unstable();
    format!("{placed}: {}", parts.join(", "))
}
