//! The [`Decision`] about a binding: its new placement or the failure, with the explanation of the engine.

use berth_api::binding::{BindingSpec, BindingStatus, TargetCluster};
use berth_api::{Binding, BindingKey, condition};
use berth_engine::{Explanation, Outcome, ScheduleError, ScheduledReason, TermExplanation};
use serde::Serialize;

/// Replicas assigned to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Share {
    /// Name of the cluster.
    pub name: String,
    /// Number of replicas. Zero for resources without replicas.
    pub replicas: i32,
}

/// Reason for which a binding is not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Reason of the condition `Scheduled`. For a binding that the scheduler ignores, `Suspended` or `Deleting`.
    pub kind: &'static str,
    /// Message of the condition `Scheduled`, in Karmada's words.
    pub message: String,
}

impl Failure {
    /// Reports whether a quota refuses the result.
    pub(crate) fn is_quota_refusal(&self) -> bool {
        self.kind == ScheduledReason::QuotaExceeded.as_str()
    }
}

/// Result of scheduling a binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Key of the binding.
    pub key: BindingKey,
    /// Desired replicas. `None` if the resource has no replicas.
    pub replicas: Option<i32>,
    /// Name of the affinity term by which the clusters were selected.
    pub affinity: Option<String>,
    /// Clusters after the decision, sorted by name. A binding that fits into no cluster loses its clusters. After other
    /// failures, it keeps them.
    pub clusters: Vec<Share>,
    /// Reason for which the binding cannot be placed. `None` after a success.
    pub failure: Option<Failure>,
    /// Summary of the reasons for which the other clusters were rejected.
    pub rejections: Option<String>,
    /// Explanation of each affinity term that the engine tried. Empty if the decider does not keep explanations.
    pub explanation: Explanation,
    /// Warnings about a placement that does not do what its policy asks for, one line each.
    pub warnings: Vec<String>,
    /// An equally good placement, which the engine may choose with another UID. `None` if the UID of the resource is
    /// known or makes no difference.
    pub tie: Option<Vec<Share>>,
}

impl Decision {
    /// Returns the explanation of the affinity term by which the clusters were selected. After a failure, returns the
    /// explanation of the first term, whose failure is the reported one.
    pub fn term(&self) -> Option<&TermExplanation> {
        if self.failure.is_some() {
            self.explanation.terms.first()
        } else {
            self.explanation.terms.last()
        }
    }

    /// Returns a copy without the explanation, which needs much memory, and without the rejections and the tie.
    pub(crate) fn without_explanation(&self) -> Self {
        Self {
            key: self.key.clone(),
            replicas: self.replicas,
            affinity: self.affinity.clone(),
            clusters: self.clusters.clone(),
            failure: self.failure.clone(),
            rejections: None,
            explanation: Explanation::default(),
            warnings: Vec::new(),
            tie: None,
        }
    }

    /// Reports whether the decision failed and may succeed when clusters have more capacity or a quota has more room.
    pub(crate) fn lacks_capacity(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            failure.kind == ScheduledReason::Unschedulable.as_str()
                || failure.kind == ScheduledReason::NoClusterFit.as_str()
                || failure.is_quota_refusal()
        })
    }

    /// Returns the clusters in the form of the field `spec.clusters` of a binding.
    pub(crate) fn targets(&self) -> Vec<TargetCluster> {
        targets(&self.clusters)
    }

    /// Returns the result for a binding that the scheduler does not process and that has no failure.
    pub(crate) fn unchanged(binding: &Binding) -> Self {
        Self::undecided(binding, None)
    }

    /// Returns the result for a binding that keeps its clusters without a decision of the engine.
    pub(crate) fn undecided(binding: &Binding, failure: Option<Failure>) -> Self {
        Self {
            key: binding.key.clone(),
            replicas: replicas(&binding.spec),
            affinity: None,
            clusters: shares(&binding.spec),
            failure,
            rejections: None,
            explanation: Explanation::default(),
            warnings: Vec::new(),
            tie: None,
        }
    }
}

/// Returns the clusters that the scheduler would write into the binding, and the failure, if any.
pub(super) fn clusters_after(
    binding: &Binding,
    outcome: &Outcome,
) -> (Vec<Share>, Option<Failure>) {
    match &outcome.result {
        Ok(placement) => {
            let targets = placement.targets.iter();
            let mut clusters: Vec<Share> = targets
                .map(|target| Share {
                    name: target.name.to_string(),
                    replicas: target.replicas,
                })
                .collect();
            clusters.sort_unstable();
            (clusters, None)
        }
        Err(error) => {
            let clusters = match error {
                // If no cluster fits, the scheduler removes all clusters from the binding. After other failures, the
                // binding keeps its clusters.
                ScheduleError::NoFit(_) => Vec::new(),
                ScheduleError::Plugin(_) => shares(&binding.spec),
            };
            let failure = Failure {
                kind: error.reason().as_str(),
                message: error.to_string(),
            };
            (clusters, Some(failure))
        }
    }
}

/// Returns clusters in the form of the field `spec.clusters` of a binding.
pub(super) fn targets(clusters: &[Share]) -> Vec<TargetCluster> {
    let targets = clusters.iter().map(|share| TargetCluster {
        name: share.name.clone(),
        replicas: share.replicas,
        ..TargetCluster::default()
    });
    targets.collect()
}

/// Returns the clusters of a binding, sorted by name.
pub(crate) fn shares(spec: &BindingSpec) -> Vec<Share> {
    let targets = spec.clusters.iter();
    let mut shares: Vec<Share> = targets
        .map(|target| Share {
            name: target.name.clone(),
            replicas: target.replicas,
        })
        .collect();
    shares.sort_unstable();
    shares
}

/// Returns the desired replicas, or `None` if the resource has no replicas.
pub(super) fn replicas(spec: &BindingSpec) -> Option<i32> {
    spec.is_workload().then_some(spec.replicas)
}

/// Reports whether the last decision about a binding failed.
pub(crate) fn has_failed(status: &BindingStatus) -> bool {
    condition::scheduled(&status.conditions).is_some_and(|condition| condition.status == "False")
}
