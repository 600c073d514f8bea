//! The health of a binding: the condition `Healthy`, and what counts of the last reports of clusters that are not ready.
//! The functions of this module are pure. The diagnosis itself is in `berth-diagnosis`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use berth_api::binding::{AggregatedStatusItem, ObjectReference, ResourceHealth};
use berth_api::condition::Status;
use berth_api::names::cluster_of_execution_namespace;
use berth_api::well_known::CONDITION_HEALTHY;
use berth_api::{Binding, Work, condition, condition_message};
use berth_apimachinery::timestamp;
use berth_diagnosis::{ClusterState, ClusterStates, HealthyCondition, Reason, of_binding_with};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::StatusInput;

/// The weight of the last reports of clusters that are not ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleStatus {
    /// The health is unknown, and the status of the template does not count the ready replicas.
    #[default]
    Exclude,
    /// The reports count until the cluster reports again, as in Karmada.
    Count,
}

/// Sets the health of resources in clusters that are not ready to unknown. The statuses stay as the clusters last reported
/// them.
pub(super) fn forget_stale_health(items: &mut [AggregatedStatusItem], clusters: &ClusterStates) {
    for item in items {
        if is_stale(clusters, &item.cluster_name) {
            item.health = Some(ResourceHealth::Unknown);
        }
    }
}

/// Returns the reports that count in the status of a template: without the ready replicas of clusters that are not ready.
/// The lasting results of these replicas, such as the completions of a Job, still count.
pub(super) fn current_reports(
    items: &[AggregatedStatusItem],
    clusters: &ClusterStates,
    resource: &ObjectReference,
) -> Vec<AggregatedStatusItem> {
    let mut items = items.to_vec();
    for item in &mut items {
        if is_stale(clusters, &item.cluster_name)
            && let Some(status) = &mut item.status
        {
            remove_ready_replicas(status, resource);
        }
    }
    items
}

/// Reports whether the last report of a cluster may be outdated.
fn is_stale(clusters: &ClusterStates, name: &str) -> bool {
    clusters.get(name) != Some(&ClusterState::Ready)
}

/// Removes the ready replicas from a status. Available replicas become unavailable ones.
fn remove_ready_replicas(status: &mut Value, resource: &ObjectReference) {
    let Some(fields) = status.as_object_mut() else {
        return;
    };
    for field in ["readyReplicas", "numberReady"] {
        fields.remove(field);
    }
    // A zero is not stored, so that the kind tells whether the status has unavailable replicas.
    let is_deployment = (&*resource.api_version, &*resource.kind) == ("apps/v1", "Deployment");
    for (from, to, is_set) in [
        ("availableReplicas", "unavailableReplicas", is_deployment),
        ("numberAvailable", "numberUnavailable", true),
    ] {
        let number = |value: Option<Value>| value.and_then(|value| value.as_i64());
        let Some(available) = number(fields.remove(from)) else {
            continue;
        };
        if is_set || fields.contains_key(to) {
            let unavailable = number(fields.get(to).cloned()).unwrap_or(0);
            let sum = available.saturating_add(unavailable);
            fields.insert(to.to_owned(), json!(sum));
        }
    }
}

/// The change of the condition `Healthy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    /// The condition is the same.
    None,
    /// The condition says now that a step is under way, of which the members report soon.
    Progress,
    /// Any other change.
    Changed,
}

/// Sets the condition `Healthy` of a binding whose other status is up to date. Removes the condition if nothing can be
/// healthy or unhealthy.
///
/// The first condition of a binding is no reason to write if nothing is known to be wrong: controllers that take over a
/// control plane write nothing, and the condition appears with the next change.
pub(super) fn set_healthy(binding: &mut Binding, input: &StatusInput) -> HealthChange {
    let (works, clusters) = (&input.works[..], &input.clusters);
    let now = timestamp::now();
    let state = |name: &str| clusters.get(name).cloned().unwrap_or(ClusterState::Missing);
    let problem = |name: &str| problem_in(works, name);
    let found = of_binding_with(binding, &state, &problem, now);
    let conditions = &mut binding.status.conditions;
    let Some(healthy) = HealthyCondition::of(&found) else {
        let before = conditions.len();
        conditions.retain(|known| known.type_ != CONDITION_HEALTHY);
        return if conditions.len() == before {
            HealthChange::None
        } else {
            HealthChange::Changed
        };
    };
    let message = condition_message::truncate(healthy.message);
    let (status, reason) = (healthy.status, healthy.reason);
    let is_first = condition::find(conditions, CONDITION_HEALTHY).is_none();
    let may_wait = is_first && !input.has_shown_health && status != Status::False;
    let is_changed = condition::set(conditions, CONDITION_HEALTHY, status, reason, &message, now);
    let progress = [Reason::NotReady, Reason::NotAppliedYet].map(Reason::as_str);
    match is_changed {
        false => HealthChange::None,
        true if may_wait => HealthChange::None,
        true if progress.contains(&reason) => HealthChange::Progress,
        true => HealthChange::Changed,
    }
}

/// Returns the problem of the pods in a cluster, which the Work reports.
fn problem_in(works: &[Arc<Work>], cluster: &str) -> Option<(Reason, String)> {
    let mut works = works.iter().filter(|work| {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        work.metadata.deletion_timestamp.is_none()
            && cluster_of_execution_namespace(namespace) == Some(cluster)
    });
    works.find_map(|work| problem_of(work))
}

/// Returns the problem of the pods of a Work.
pub(super) fn problem_of(work: &Work) -> Option<(Reason, String)> {
    let conditions = &work.status.as_ref()?.conditions;
    let healthy = condition::find(conditions, CONDITION_HEALTHY)?;
    let reason = Reason::parse(&healthy.reason).filter(|_| healthy.status == "False")?;
    Some((reason, healthy.message.clone()))
}

/// Returns a number that differs between different contents of the condition `Healthy`.
pub(crate) fn fingerprint(conditions: &[Condition]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let healthy = condition::find(conditions, CONDITION_HEALTHY);
    healthy
        .map(|of| (&of.status, &of.reason, &of.message))
        .hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
