//! PodDisruptionBudgets: healthy pods and allowed disruptions are counted as in the disruption controller.
//!
//! An eviction decrements the allowed disruptions and records the pod in the status of the budget. When the pod is
//! gone, the budget is counted again.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::label_selector::{CompiledSelector, LabelSelector, LabelSelectorRequirement};
use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::Cache;
use crate::owned_pods::{self, controller_of, number};
use crate::plan::Plan;
use crate::scope::Scope;

/// Maximum time from the eviction of a pod until its deletion starts. Then the pod counts as healthy again.
const DELETION: Duration = Duration::from_mins(2);
const ALLOWED: &str = "DisruptionAllowed";

pub(crate) fn plan(cache: &Cache, scope: &Scope, now: jiff::Timestamp, plan: &mut Plan) {
    for budget in cache.budgets.iter() {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        if scope.covers(&budget.metadata) || scope.has_changes_in(namespace) {
            plan_budget(budget, cache, now, plan);
        }
    }
}

/// The number of expected pods, and the number of healthy pods that a budget requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Requirement {
    pods: i32,
    healthy: i32,
}

fn plan_budget(budget: &PodDisruptionBudget, cache: &Cache, now: jiff::Timestamp, plan: &mut Plan) {
    let spec = budget.spec.clone().unwrap_or_default();
    let before = budget.status.clone().unwrap_or_default();
    let pods = selected_pods(budget, &spec, cache);
    let next = match requirement(&spec, &pods, cache) {
        Ok(wanted) => {
            let leaving = evicted_pods(budget, &before, &pods, now, plan);
            budget_status(budget, &before, wanted, &pods, leaving, now)
        }
        Err(why) => PodDisruptionBudgetStatus {
            disruptions_allowed: Some(0),
            conditions: Some(conditions(&before, "SyncFailed", &why, now)),
            ..before.clone()
        },
    };
    if next != before {
        let mut changed = budget.clone();
        changed.status = Some(next);
        plan.of(&budget.metadata)
            .push(Action::BudgetStatus(Box::new(changed)));
    }
}

/// Returns the pods that a budget selects. A budget without a selector selects no pods.
fn selected_pods<'a>(
    budget: &PodDisruptionBudget,
    spec: &PodDisruptionBudgetSpec,
    cache: &'a Cache,
) -> Vec<&'a Pod> {
    let Some(selector) = spec.selector.as_ref().and_then(compiled) else {
        return Vec::new();
    };
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let pods = cache.pods.within(namespace);
    pods.filter(|pod| selector.matches(pod.labels())).collect()
}

fn compiled(selector: &meta::LabelSelector) -> Option<CompiledSelector> {
    let selector = selector.clone();
    let expressions = selector.match_expressions.unwrap_or_default();
    let selector = LabelSelector {
        match_labels: selector.match_labels.unwrap_or_default(),
        match_expressions: expressions
            .into_iter()
            .map(|expression| LabelSelectorRequirement {
                key: expression.key,
                operator: expression.operator,
                values: expression.values.unwrap_or_default(),
            })
            .collect(),
    };
    selector.compile().ok()
}

/// Returns the requirement of a budget, or the reason why the requirement is unknown.
fn requirement(
    spec: &PodDisruptionBudgetSpec,
    pods: &[&Pod],
    cache: &Cache,
) -> Result<Requirement, String> {
    let wanted = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let scale = scale(pods, cache)?;
            let healthy = scale.saturating_sub(share(most, scale)?).max(0);
            Requirement {
                pods: scale,
                healthy,
            }
        }
        (None, Some(IntOrString::Int(healthy))) => Requirement {
            pods: number(pods.len()),
            healthy: *healthy,
        },
        (None, Some(least)) => {
            let scale = scale(pods, cache)?;
            let healthy = share(least, scale)?;
            Requirement {
                pods: scale,
                healthy,
            }
        }
        (None, None) => Requirement {
            pods: 0,
            healthy: 0,
        },
    };
    Ok(wanted)
}

/// Resolves a number, or a percentage of `all`, rounded up.
fn share(value: &IntOrString, all: i32) -> Result<i32, String> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
    let percent = percent.ok_or_else(|| format!("{text} is neither a number nor a percentage"))?;
    let share = percent
        .saturating_mul(i64::from(all))
        .saturating_add(99)
        .div_euclid(100);
    Ok(i32::try_from(share).unwrap_or(i32::MAX))
}

/// Returns the total replicas of the controllers of the pods. Pods without a controller add nothing.
fn scale(pods: &[&Pod], cache: &Cache) -> Result<i32, String> {
    let mut controllers: BTreeMap<&str, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else {
            continue;
        };
        let (uid, replicas) = controller(pod, owner, cache)?;
        controllers.insert(uid, replicas);
    }
    Ok(controllers
        .values()
        .fold(0, |sum, n| sum.saturating_add(*n)))
}

/// Returns the UID and the replicas of the topmost controller of a pod.
fn controller<'a>(
    pod: &Pod,
    owner: &'a meta::OwnerReference,
    cache: &'a Cache,
) -> Result<(&'a str, i32), String> {
    let none = || format!("found no controllers for pod \"{}\"", pod.name_any());
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let key = (namespace.clone(), owner.name.clone());
    let is_it = |metadata: &meta::ObjectMeta| metadata.uid.as_ref() == Some(&owner.uid);
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = cache.replica_sets.get(&key);
            let set = set.filter(|set| is_it(&set.metadata)).ok_or_else(none)?;
            let above = controller_of(&set.metadata).filter(|above| above.kind == "Deployment");
            let Some(above) = above else {
                let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
                return Ok((&owner.uid, replicas.unwrap_or(1)));
            };
            let deployment = cache.deployments.get(&(namespace, above.name.clone()));
            let deployment = deployment
                .filter(|found| found.metadata.uid.as_ref() == Some(&above.uid))
                .ok_or_else(none)?;
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            Ok((&above.uid, replicas.unwrap_or(1)))
        }
        "ReplicationController" => {
            let found = cache.replication_controllers.get(&key);
            let found = found
                .filter(|found| is_it(&found.metadata))
                .ok_or_else(none)?;
            let replicas = found.spec.as_ref().and_then(|spec| spec.replicas);
            Ok((&owner.uid, replicas.unwrap_or(1)))
        }
        "StatefulSet" => {
            let set = cache.stateful_sets.get(&key);
            let set = set.filter(|set| is_it(&set.metadata)).ok_or_else(none)?;
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
            Ok((&owner.uid, replicas.unwrap_or(1)))
        }
        "DaemonSet" => Err("daemonsets.apps does not implement the scale subresource".to_owned()),
        "Job" => Err("jobs.batch does not implement the scale subresource".to_owned()),
        _ => Err(none()),
    }
}

/// Returns the pods that were evicted less than [`DELETION`] ago and whose deletion has not started, with the times of
/// their evictions.
fn evicted_pods(
    budget: &PodDisruptionBudget,
    before: &PodDisruptionBudgetStatus,
    pods: &[&Pod],
    now: jiff::Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Time> {
    let mut leaving = before.disrupted_pods.clone().unwrap_or_default();
    leaving.retain(|name, since| {
        let exists = pods
            .iter()
            .any(|pod| pod.name_any() == *name && pod.metadata.deletion_timestamp.is_none());
        let waited = Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
        exists && waited < DELETION
    });
    for since in leaving.values() {
        let uid = budget.metadata.uid.clone().unwrap_or_default();
        plan.replan_after(uid, since.0, DELETION);
    }
    leaving
}

fn budget_status(
    budget: &PodDisruptionBudget,
    before: &PodDisruptionBudgetStatus,
    wanted: Requirement,
    pods: &[&Pod],
    leaving: BTreeMap<String, Time>,
    now: jiff::Timestamp,
) -> PodDisruptionBudgetStatus {
    let healthy = pods.iter().filter(|pod| {
        pod.metadata.deletion_timestamp.is_none()
            && !leaving.contains_key(&pod.name_any())
            && owned_pods::is_ready(pod)
    });
    let healthy = number(healthy.count());
    let spare = healthy.saturating_sub(wanted.healthy);
    let allowed = if wanted.pods > 0 { spare.max(0) } else { 0 };
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(wanted.healthy),
        expected_pods: Some(wanted.pods),
        disruptions_allowed: Some(allowed),
        disrupted_pods: (!leaving.is_empty()).then_some(leaving),
        observed_generation: budget.metadata.generation,
        conditions: before.conditions.clone(),
    };
    let reason = if allowed > 0 {
        "SufficientPods"
    } else {
        "InsufficientPods"
    };
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(&status, reason, "", now)),
        ..status
    }
}

/// Returns the conditions of a budget. `reason` states why disruptions are allowed or forbidden.
fn conditions(
    status: &PodDisruptionBudgetStatus,
    reason: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let mut all = status.conditions.clone().unwrap_or_default();
    let allowed = if reason == "SufficientPods" {
        "True"
    } else {
        "False"
    };
    let whole = Time(whole_seconds(now));
    let known = all.iter().position(|c| c.type_ == ALLOWED);
    let before = known.map(|index| all.remove(index));
    let since = before.filter(|before| before.status == allowed);
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: allowed.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: since.map_or(whole, |before| before.last_transition_time),
    };
    all.insert(known.unwrap_or(all.len()), condition);
    all
}
