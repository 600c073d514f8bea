//! StatefulSets: numbered pods. The pods are created in order, unless the pod management policy is Parallel.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::owned_pods::{self, Pods};
use crate::plan::Plan;
use crate::pod_template;
use crate::scope::Scope;
use crate::stateful_set_claims;

const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub(crate) fn plan(cache: &Cache, scope: &Scope, pods: &Pods<'_>, plan: &mut Plan) {
    let of_scope = |set: &&StatefulSet| scope.covers(&set.metadata);
    for set in cache.stateful_sets.iter().filter(of_scope) {
        if let (Some(spec), None) = (&set.spec, &set.metadata.deletion_timestamp) {
            plan_set(cache, set, spec, pods, plan.of(&set.metadata));
        }
    }
}

fn plan_set(
    cache: &Cache,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pods: &Pods<'_>,
    actions: &mut Vec<Action>,
) {
    let name = set.name_any();
    let revision = format!(
        "{name}-{}",
        pod_template::short_name(&spec.template, "", 10)
    );
    let all = pods.controlled_by(set);
    let numbered: BTreeMap<i32, &Pod> = all
        .iter()
        .filter_map(|pod| Some((number_of(pod)?, *pod)))
        .collect();
    let first = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0);
    let wanted = first..first.saturating_add(spec.replicas.unwrap_or(1));
    let at_once = spec.pod_management_policy.as_deref() == Some("Parallel");
    let is_updated = |pod: &Pod| pod.labels().get(REVISION) == Some(&revision);

    if let Some(change) = next_changes(&numbered, wanted.clone(), at_once, spec, &is_updated) {
        let made = |change: &&Change<'_>| matches!(change, Change::Make(_));
        let mut allowed = pods.claim(set, change.iter().filter(made).count());
        for change in change {
            match change {
                Change::Make(_) if allowed == 0 => {}
                Change::Make(number) => {
                    allowed -= 1;
                    let mut pod = pod(set, spec, &revision, number);
                    stateful_set_claims::create_missing(set, spec, &mut pod, cache, actions);
                    actions.push(Action::CreatePod(Box::new(pod)));
                }
                Change::Remove(pod) => {
                    actions.push(Action::DeletePod(key(pod)));
                    if number_of(pod).is_some_and(|number| !wanted.contains(&number)) {
                        let left = stateful_set_claims::claims_to_delete(set, spec, pod, cache);
                        actions.extend(left.map(Action::DeleteClaim));
                    }
                }
            }
        }
    }

    let live = numbered
        .values()
        .filter(|pod| !owned_pods::is_finished(pod));
    let live: Vec<&&Pod> = live.collect();
    let ready = live.iter().filter(|pod| owned_pods::is_ready(pod)).count();
    let updated = live.iter().filter(|pod| is_updated(pod)).count();
    let before = set.status.clone().unwrap_or_default();
    let current = match before.current_revision {
        Some(before) if updated < live.len() => before,
        _ => revision.clone(),
    };
    let of_current = if current == revision {
        updated
    } else {
        live.len() - updated
    };
    let status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: owned_pods::number(live.len()),
        ready_replicas: owned_pods::nonzero(ready),
        available_replicas: Some(owned_pods::number(ready)),
        current_replicas: owned_pods::nonzero(of_current),
        updated_replicas: owned_pods::nonzero(updated),
        current_revision: Some(current),
        update_revision: Some(revision),
        collision_count: Some(0),
        conditions: None,
    };
    if set.status.as_ref() != Some(&status) {
        let mut set = set.clone();
        set.status = Some(status);
        actions.push(Action::StatefulSetStatus(Box::new(set)));
    }
}

enum Change<'a> {
    Make(i32),
    Remove(&'a Pod),
}

/// Returns the next changes of pods. If `at_once` is false, returns at most one change, otherwise at most a burst of new
/// pods.
fn next_changes<'a>(
    pods: &BTreeMap<i32, &'a Pod>,
    wanted: std::ops::Range<i32>,
    at_once: bool,
    spec: &StatefulSetSpec,
    is_updated: &impl Fn(&Pod) -> bool,
) -> Option<Vec<Change<'a>>> {
    let mut changes = Vec::new();
    for number in wanted.clone() {
        match pods.get(&number) {
            None => changes.push(Change::Make(number)),
            Some(pod) if owned_pods::is_finished(pod) => changes.push(Change::Remove(pod)),
            Some(pod) if !at_once && !owned_pods::is_ready(pod) && is_updated(pod) => {
                return (!changes.is_empty()).then_some(changes);
            }
            Some(_) => {}
        }
        if !changes.is_empty() && (!at_once || changes.len() == owned_pods::MAX_BURST) {
            return Some(changes);
        }
    }
    for (_, pod) in pods
        .iter()
        .rev()
        .filter(|(number, _)| !wanted.contains(number))
    {
        changes.push(Change::Remove(pod));
        if !at_once {
            return Some(changes);
        }
    }
    if !changes.is_empty() {
        return Some(changes);
    }
    // All pods exist. The next change re-creates the outdated pod with the highest number.
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
    let from = rolling.and_then(|r| r.partition).unwrap_or(0);
    let (_, outdated) = pods
        .iter()
        .rev()
        .find(|(number, pod)| **number >= wanted.start + from && !is_updated(pod))?;
    let others = pods
        .values()
        .filter(|pod| pod.metadata.name != outdated.metadata.name);
    let undisturbed = others.into_iter().all(|pod| owned_pods::is_ready(pod));
    undisturbed.then(|| vec![Change::Remove(outdated)])
}

fn number_of(pod: &Pod) -> Option<i32> {
    pod.metadata
        .name
        .as_deref()?
        .rsplit_once('-')?
        .1
        .parse()
        .ok()
}

fn pod(set: &StatefulSet, spec: &StatefulSetSpec, revision: &str, number: i32) -> Pod {
    let name = format!("{}-{number}", set.name_any());
    let namespace = set.metadata.namespace.as_ref();
    let mut pod = pod_template::pod(
        &spec.template,
        namespace,
        name.clone(),
        owned_pods::owner_references(set),
    );
    pod.metadata.labels.get_or_insert_default().extend([
        (REVISION.to_owned(), revision.to_owned()),
        (POD_NAME.to_owned(), name.clone()),
        (POD_INDEX.to_owned(), number.to_string()),
    ]);
    if let Some(pod) = &mut pod.spec {
        pod.hostname = Some(name);
        pod.subdomain.clone_from(&spec.service_name);
    }
    pod
}
