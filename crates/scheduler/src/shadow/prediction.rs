//! The compared parts of a decision: the clusters, and the reason of the condition `Scheduled`.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::binding::TargetCluster;
use berth_api::{Binding, condition};
use berth_engine::{Explanation, Outcome, ScheduledReason};

use crate::quota_book::QuotaBook;
use crate::rules::plan::Plan;
use crate::shadow_differences::{Decided, MissingCluster};

/// The compared parts of a decision of this scheduler or of another scheduler.
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

    /// Returns the decision that a scheduler has written into a binding.
    pub(super) fn written(binding: &Binding) -> Self {
        let condition = condition::scheduled(&binding.status.conditions);
        Self::new(
            &binding.spec.clusters,
            condition.map_or("", |condition| &condition.reason),
        )
    }

    /// Returns the decision that a scheduler would write for an outcome of the engine. `quotas` are the quotas that the
    /// scheduler enforces, if any.
    pub(super) fn of(
        binding: &Binding,
        placement_json: &str,
        outcome: &Outcome,
        quotas: Option<&QuotaBook>,
    ) -> Self {
        let plan = Plan::of(binding, placement_json, outcome);
        if let Some(targets) = &plan.targets
            && quotas.is_some_and(|quotas| quotas.check(binding, targets).is_err())
        {
            let reason = ScheduledReason::QuotaExceeded;
            return Self::new(&binding.spec.clusters, reason.as_str());
        }
        let clusters = plan.targets.as_deref().unwrap_or(&binding.spec.clusters);
        let reason = match &outcome.result {
            Ok(_) => ScheduledReason::Success,
            Err(error) => error.reason(),
        };
        Self::new(clusters, reason.as_str())
    }

    /// Returns the clusters that only the other decision contains. Each cluster has the plugin that rejected it, or the
    /// stage that it reached.
    pub(super) fn missing(&self, other: &Self, explanation: &Explanation) -> Vec<MissingCluster> {
        let explained = explanation.clusters_of_last_term();
        let missing = other
            .clusters
            .keys()
            .filter(|name| !self.clusters.contains_key(*name));
        missing
            .map(|name| {
                let cluster = explained.and_then(|clusters| clusters.get(name));
                let refusal = cluster.and_then(|cluster| cluster.refusal.as_ref());
                MissingCluster {
                    cluster: name.clone(),
                    plugin: refusal.map(|refusal| refusal.plugin.clone()),
                    reason: match (refusal, cluster) {
                        (Some(refusal), _) => refusal.reason.clone(),
                        (None, Some(cluster)) => format!("{:?}", cluster.stage),
                        (None, None) => "not in the fleet".to_owned(),
                    },
                }
            })
            .collect()
    }

    /// Returns the decision in the form that `/debug/shadow` returns.
    pub(super) fn into_decided(self) -> Decided {
        Decided {
            clusters: self.clusters.into_values().collect(),
            reason: self.reason,
        }
    }
}

/// Formats a decision, for example as `m1:2, m2 (Success)`.
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

#[cfg(test)]
mod tests {
    use berth_api::{FederatedResourceQuota, ResourceBinding};
    use berth_engine::{Placement, Target};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_beyond_a_quota_is_a_refusal() {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "replicas": 2, "replicaRequirements": { "resourceRequest": { "cpu": "1" } } },
        }))
        .unwrap();
        let binding = Binding::from(binding);
        let target = Target {
            name: "m1".into(),
            replicas: 2,
            components: Vec::new(),
        };
        let outcome = Outcome {
            result: Ok(Placement {
                affinity: None,
                targets: vec![target],
                waiting: 0,
            }),
            failed_terms: Vec::new(),
        };
        for (cpus, expected) in [
            (None, "m1:2 (Success)"),
            (Some("2"), "m1:2 (Success)"),
            (Some("1"), "no cluster (QuotaExceeded)"),
        ] {
            let quotas = cpus.map(|cpus| {
                let quota: FederatedResourceQuota = serde_json::from_value(json!({
                    "metadata": { "namespace": "shop", "name": "team" }, "spec": { "overall": { "cpu": cpus } } }))
                .unwrap();
                let mut quotas = QuotaBook::default();
                quotas.quota_applied(quota, std::iter::empty());
                quotas
            });
            let own = Prediction::of(&binding, "{}", &outcome, quotas.as_ref());
            assert_eq!(own.to_string(), expected, "{cpus:?}");
        }
    }
}
