//! The preview of a drain: for each binding in a cluster, where it goes, or why it stays.
//!
//! The rules for what stays are conservative. An object that a remaining workload may need stays with it, because with
//! Karmada's controllers the object would disappear from under the workload.

use std::collections::BTreeMap;

use berth_api::binding::BindingSpec;
use berth_api::placement::ReplicaSchedulingType;
use berth_api::well_known::UNSCHEDULABLE;
use berth_api::{Binding, BindingKey};
use berth_controllers::propagation::runs_pods;
use berth_controllers::suspension::is_suspended;
use berth_engine::{RepellingEffect, RepellingTaint, Request};
use berth_scheduler::rules::responsibility;

use super::decision::{Decision, Share, shares};
use super::moves::Moves;
use crate::control_plane_state::Bindings;

/// The preview of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainPreview {
    /// Bindings with a copy in the cluster, sorted by key.
    pub departures: Vec<Departure>,
    /// Number of bindings that are no longer placed in the cluster, and whose eviction has not ended.
    pub already_leaving: usize,
    /// Number of bindings without a copy in the cluster that the drain would move as well, such as preempted ones.
    pub others: usize,
    /// Limits of the prediction and remarks about its result, one sentence each.
    pub notes: Vec<String>,
}

/// A binding with a copy in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Key of the binding.
    pub key: BindingKey,
    /// Role of the resource.
    pub role: DepartureRole,
    /// Replicas in the cluster. `None` if the resource has no replicas.
    pub replicas: Option<i32>,
    /// Predicted outcome.
    pub outcome: DepartureOutcome,
}

/// The role of a resource in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DepartureRole {
    /// The resource runs pods.
    Workload,
    /// The resource runs no pods, such as a ConfigMap or a finished Job.
    Object,
}

/// The predicted outcome for a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DepartureOutcome {
    /// Other clusters get what the cluster loses.
    Moves {
        /// Replicas that other clusters get in addition, sorted by name.
        to: Vec<Share>,
    },
    /// Other clusters already have a copy, and no cluster gets another one.
    Leaves,
    /// The binding has no placement of its own: it leaves with the bindings that require it.
    Follows,
    /// The binding cannot leave.
    Stays {
        /// Reason, without a full stop.
        reason: String,
    },
}

impl DrainPreview {
    /// Returns the bindings of a role to evict.
    pub fn movable(&self, role: DepartureRole) -> impl Iterator<Item = &Departure> {
        self.departures
            .iter()
            .filter(move |departure| departure.role == role && departure.is_movable())
    }

    /// Returns the number of workloads that stay.
    pub fn workloads_that_stay(&self) -> usize {
        let stay = self.departures.iter().filter(|departure| {
            departure.role == DepartureRole::Workload && departure.stays().is_some()
        });
        stay.count()
    }
}

impl Departure {
    /// Reports whether the drain evicts the binding.
    pub fn is_movable(&self) -> bool {
        matches!(
            self.outcome,
            DepartureOutcome::Moves { .. } | DepartureOutcome::Leaves
        )
    }

    /// Returns the reason for which the binding stays, or `None` if it leaves.
    pub fn stays(&self) -> Option<&str> {
        match &self.outcome {
            DepartureOutcome::Stays { reason } => Some(reason),
            _ => None,
        }
    }
}

/// Reports whether a drain of a cluster may evict a binding, without regard to the other clusters.
pub(super) fn can_be_evicted(binding: &Binding, cluster: &str) -> bool {
    !binding.deleting() && !follows(binding) && obstacle(binding, cluster).is_none()
}

/// Reports whether a binding is being evicted from a cluster.
pub(super) fn is_leaving(binding: &Binding, cluster: &str) -> bool {
    let is_target = binding.spec.clusters.iter().any(|t| t.name == cluster);
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    !is_target && !binding.deleting() && tasks.any(|task| task.from_cluster == cluster)
}

/// Reports whether a binding has no placement of its own, and is only required by others.
fn follows(binding: &Binding) -> bool {
    binding.spec.placement.is_none() && !binding.spec.required_by.is_empty()
}

/// Returns the reason for which an eviction of a binding would not end, or would do harm.
fn obstacle(binding: &Binding, cluster: &str) -> Option<String> {
    if binding.spec.scheduling_suspended() {
        return Some("scheduling is suspended".to_owned());
    }
    if is_suspended(&binding.spec, cluster) {
        return Some(format!("dispatching to {cluster} is suspended"));
    }
    if !is_divided(&binding.spec) && tolerates_cordon(binding) {
        let reason = "its placement tolerates the taint of a cordoned member, so the scheduler would place it there again";
        return Some(reason.to_owned());
    }
    is_finished_job(binding, cluster)
        .then(|| "the Job has finished, and would run again in another cluster".to_owned())
}

/// Reports whether the replicas of a binding are divided among its clusters. Otherwise each cluster has a whole copy.
fn is_divided(spec: &BindingSpec) -> bool {
    let placement = spec.placement.as_ref();
    spec.replicas > 0
        && placement
            .is_some_and(|placement| placement.scheduling_type() == ReplicaSchedulingType::Divided)
}

/// Reports whether the scheduler may add a cordoned cluster to a binding.
fn tolerates_cordon(binding: &Binding) -> bool {
    let cordon = RepellingTaint {
        key: UNSCHEDULABLE.to_owned(),
        value: String::new(),
        effect: RepellingEffect::NoSchedule,
    };
    let request = Request::new(&binding.key, &binding.spec, &binding.status);
    request.is_ok_and(|request| {
        let mut tolerations = request.placement().tolerations().iter();
        tolerations.any(|toleration| toleration.tolerates(&cordon))
    })
}

/// Reports whether a binding is one of a Job that has completed or failed in a cluster.
fn is_finished_job(binding: &Binding, cluster: &str) -> bool {
    let resource = &binding.spec.resource;
    if (&*resource.api_version, &*resource.kind) != ("batch/v1", "Job") {
        return false;
    }
    let items = binding.status.aggregated_status.iter();
    let mut in_cluster = items.filter(|item| item.cluster_name == cluster);
    let status = in_cluster.find_map(|item| item.status.as_ref());
    let conditions = status.and_then(|status| status["conditions"].as_array());
    conditions.into_iter().flatten().any(|condition| {
        let is_end = ["Complete", "Failed"].contains(&condition["type"].as_str().unwrap_or(""));
        is_end && condition["status"] == "True"
    })
}

/// Returns the outcome for each binding with a copy in a cluster. `before` are the bindings before the drain, and `moves`
/// are the predicted moves.
pub(super) fn departures(before: &Bindings, moves: &Moves, cluster: &str) -> Vec<Departure> {
    let decided: BTreeMap<&BindingKey, &Decision> = moves
        .moves
        .iter()
        .map(|moved| (&moved.to.key, &moved.to))
        .collect();
    let mut departures = Vec::new();
    for (key, binding) in before {
        let Some(outcome) = outcome(binding, decided.get(key).copied(), cluster) else {
            continue;
        };
        let spec = &binding.spec;
        let target = spec.clusters.iter().find(|target| target.name == cluster);
        departures.push(Departure {
            key: key.clone(),
            role: role(binding, cluster),
            replicas: target
                .filter(|_| spec.is_workload())
                .map(|target| target.replicas),
            outcome,
        });
    }
    keep_with_workloads(&mut departures);
    departures
}

/// Returns the outcome for a binding, or `None` if it has no copy in the cluster. `decision` is the decision about the
/// evicted binding.
fn outcome(
    binding: &Binding,
    decision: Option<&Decision>,
    cluster: &str,
) -> Option<DepartureOutcome> {
    let spec = &binding.spec;
    let is_target = spec.clusters.iter().any(|target| target.name == cluster);
    let is_required = follows(binding) && is_required_in(spec, cluster);
    if binding.deleting() || !(is_target || is_required) {
        return None;
    }
    if follows(binding) {
        return Some(DepartureOutcome::Follows);
    }
    if let Some(reason) = obstacle(binding, cluster) {
        return Some(DepartureOutcome::Stays { reason });
    }
    if let Some(failure) = decision.and_then(|decision| decision.failure.as_ref()) {
        let reason = failure.message.trim_end_matches('.').to_owned();
        return Some(DepartureOutcome::Stays { reason });
    }
    let unchanged = shares(spec);
    let after = decision.map_or(&unchanged, |decision| &decision.clusters);
    Some(placed(binding, cluster, after))
}

fn role(binding: &Binding, cluster: &str) -> DepartureRole {
    if runs_pods(&binding.spec) && !is_finished_job(binding, cluster) {
        DepartureRole::Workload
    } else {
        DepartureRole::Object
    }
}

/// Reports whether a binding that requires this one is in a cluster.
fn is_required_in(spec: &BindingSpec, cluster: &str) -> bool {
    let mut clusters = spec.required_by.iter().flat_map(|parent| &parent.clusters);
    clusters.any(|target| target.name == cluster)
}

/// Returns the outcome of a decision that did not fail. `after` are the clusters of the binding after the decision.
fn placed(binding: &Binding, cluster: &str, after: &[Share]) -> DepartureOutcome {
    let spec = &binding.spec;
    let others: Vec<&Share> = after.iter().filter(|share| share.name != cluster).collect();
    let placed: i64 = others.iter().map(|share| i64::from(share.replicas)).sum();
    let lacks_replicas = is_divided(spec) && placed < i64::from(spec.replicas);
    if others.is_empty() || lacks_replicas {
        let scheduler = spec.scheduler();
        let reason = if responsibility::passes(binding, scheduler) {
            format!(
                "the preview has no profile of its scheduler {scheduler}: pass --config or --scheduler-url"
            )
        } else {
            "no policy has claimed it, so no scheduler would place it again".to_owned()
        };
        return DepartureOutcome::Stays { reason };
    }
    let replicas_before = |name: &str| {
        let found = spec.clusters.iter().find(|target| target.name == name);
        found.map(|target| target.replicas)
    };
    let to: Vec<Share> = others
        .into_iter()
        .filter_map(|share| {
            let before = replicas_before(&share.name);
            let replicas = share.replicas - before.unwrap_or(0);
            (before.is_none() || replicas > 0).then(|| Share {
                name: share.name.clone(),
                replicas,
            })
        })
        .collect();
    if to.is_empty() {
        DepartureOutcome::Leaves
    } else {
        DepartureOutcome::Moves { to }
    }
}

/// Keeps the objects that a remaining workload may need: those of its namespace, and those without a namespace.
fn keep_with_workloads(departures: &mut [Departure]) {
    let staying: Vec<BindingKey> = departures
        .iter()
        .filter(|departure| departure.role == DepartureRole::Workload)
        .filter(|departure| departure.stays().is_some())
        .map(|departure| departure.key.clone())
        .collect();
    for departure in departures {
        if departure.role != DepartureRole::Object || !departure.is_movable() {
            continue;
        }
        let namespace = &departure.key.namespace;
        let mut workloads = staying.iter();
        let needed_by = workloads.find(|key| namespace.is_none() || key.namespace == *namespace);
        if let Some(workload) = needed_by {
            departure.outcome = DepartureOutcome::Stays {
                reason: format!("{workload}, which stays, may need it"),
            };
        }
    }
}

#[cfg(test)]
mod tests;
