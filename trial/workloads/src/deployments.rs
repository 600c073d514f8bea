//! Deployments: one ReplicaSet for each template, and rolling updates within the limits of the strategy.
//!
//! The ReplicaSet of an old template remains without pods, up to the history limit. If a Deployment returns to an old
//! template, the ReplicaSet of this template is used again and becomes the latest revision.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

use crate::action::{Action, REVISION};
use crate::cache::{Cache, key};
use crate::owned_pods::{self, Pods};
use crate::plan::Plan;
use crate::pod_template;
use crate::replica_sets;
use crate::replicas::REPLICA_FAILURE;
use crate::retries::Refusal;
use crate::scope::Scope;

const HASH: &str = "pod-template-hash";

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    plan: &mut Plan,
) {
    let mut sets: BTreeMap<&str, Vec<&ReplicaSet>> = BTreeMap::new();
    for set in cache.replica_sets.iter() {
        if let Some(owner) = owned_pods::controller_of(&set.metadata)
            && scope.has(&owner.uid)
        {
            sets.entry(&owner.uid).or_default().push(set);
        }
    }
    let of_scope = |deployment: &&Deployment| scope.covers(&deployment.metadata);
    for deployment in cache.deployments.iter().filter(of_scope) {
        let (Some(spec), None) = (&deployment.spec, &deployment.metadata.deletion_timestamp) else {
            continue;
        };
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        let mut own = sets.remove(uid).unwrap_or_default();
        own.sort_by_key(|set| revision(set));
        let rollout = Rollout::of(deployment, spec, &own, pods);
        let actions = plan.of(&deployment.metadata);
        plan_rollout(&rollout, actions);
        let refusal = cache.retries.refusal(deployment, actions);
        let progress = Progress::of(&rollout, refusal, now);
        let status = status(&rollout, &progress, now);
        if deployment.status.as_ref() != Some(&status) {
            let mut deployment = deployment.clone();
            deployment.status = Some(status);
            actions.push(Action::DeploymentStatus(Box::new(deployment)));
        }
        if let Some((since, deadline)) = progress.deadline {
            plan.replan_after(uid.to_owned(), since, deadline);
        }
    }
}

fn revision(set: &ReplicaSet) -> u64 {
    let written = set.annotations().get(REVISION);
    written
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// The rollout of a Deployment from its old templates to its current template.
struct Rollout<'a> {
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    hash: String,
    wanted: usize,
    current: Option<&'a ReplicaSet>,
    old: Vec<&'a ReplicaSet>,
    /// The numbers of unfinished pods and of ready pods of the current ReplicaSet.
    updated: (usize, usize),
    /// The numbers of unfinished pods and of ready pods of all ReplicaSets.
    all: (usize, usize),
}

impl<'a> Rollout<'a> {
    fn of(
        deployment: &'a Deployment,
        spec: &'a DeploymentSpec,
        sets: &[&'a ReplicaSet],
        pods: &Pods<'_>,
    ) -> Self {
        let hash = pod_template::short_name(&spec.template, "", 10);
        let is_current = |set: &ReplicaSet| set.labels().get(HASH) == Some(&hash);
        let (current, old): (Vec<_>, Vec<_>) =
            sets.iter().copied().partition(|set| is_current(set));
        let count = |set: &ReplicaSet| {
            let pods = pods.controlled_by(set);
            let live = pods.iter().filter(|pod| !owned_pods::is_finished(pod));
            let ready = pods.iter().filter(|pod| owned_pods::is_ready(pod));
            (live.count(), ready.count())
        };
        let sum = |sets: &[&ReplicaSet]| {
            let counts = sets.iter().map(|set| count(set));
            counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        Self {
            deployment,
            spec,
            wanted: usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default(),
            updated: sum(&current),
            all: sum(sets),
            current: current.first().copied(),
            old,
            hash,
        }
    }

    /// Returns the maximum numbers of surplus pods and of unavailable pods during a rollout.
    fn limits(&self) -> (usize, usize) {
        let strategy = self.spec.strategy.as_ref();
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let surge = share(
            rolling.and_then(|r| r.max_surge.as_ref()),
            self.wanted,
            true,
        );
        let missing = share(
            rolling.and_then(|r| r.max_unavailable.as_ref()),
            self.wanted,
            false,
        );
        // If both limits were 0, the rollout would never end.
        (surge, if surge == 0 { missing.max(1) } else { missing })
    }

    fn recreates(&self) -> bool {
        let strategy = self.spec.strategy.as_ref();
        strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate")
    }

    /// Returns the desired pods of the current ReplicaSet, and the desired pods of all old ReplicaSets together.
    fn targets(&self) -> (usize, usize) {
        let old: usize = self.old.iter().map(|set| replica_sets::wanted(set)).sum();
        if old == 0 {
            return (self.wanted, 0);
        }
        if self.recreates() {
            let left = self.all.0 - self.updated.0;
            return (if left == 0 { self.wanted } else { 0 }, 0);
        }
        let (surge, missing) = self.limits();
        let current = (self.wanted + surge).saturating_sub(old).min(self.wanted);
        // The old pods must provide the availability that the ready updated pods do not provide yet.
        let needed = self
            .wanted
            .saturating_sub(missing)
            .saturating_sub(self.updated.1);
        (
            current.max(
                self.current
                    .map_or(0, replica_sets::wanted)
                    .min(self.wanted),
            ),
            old.min(needed),
        )
    }
}

/// Resolves a number, or a percentage of `whole`. The default is 25%.
fn share(value: Option<&IntOrString>, whole: usize, up: bool) -> usize {
    let percentage = match value {
        Some(IntOrString::Int(number)) => return usize::try_from(*number).unwrap_or_default(),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().unwrap_or(25),
        None => 25_usize,
    };
    let part = whole * percentage;
    if up { part.div_ceil(100) } else { part / 100 }
}

fn plan_rollout(rollout: &Rollout<'_>, actions: &mut Vec<Action>) {
    let (current, mut old) = rollout.targets();
    let paused = rollout.spec.paused.unwrap_or(false);
    match rollout.current {
        None if !paused || rollout.old.is_empty() => {
            actions.push(Action::CreateReplicaSet(Box::new(replica_set(
                rollout, current,
            ))));
        }
        Some(set) if replica_sets::wanted(set) != current => {
            actions.push(Action::Scale(key(set), owned_pods::number(current)));
        }
        _ => {}
    }
    if let Some(current) = rollout.current {
        let last = rollout.old.iter().map(|set| revision(set)).max();
        if let Some(last) = last.filter(|last| *last >= revision(current)) {
            actions.push(Action::Revise(key(current), last + 1));
        }
        // The newest of the old ReplicaSets keep their pods longest.
        for set in rollout.old.iter().rev() {
            let has = replica_sets::wanted(set);
            let keeps = has.min(old);
            old -= keeps;
            if keeps != has {
                actions.push(Action::Scale(key(*set), owned_pods::number(keeps)));
            }
        }
        delete_old_sets(rollout, actions);
    }
}

/// Deletes the old ReplicaSets without pods that exceed the history limit.
fn delete_old_sets(rollout: &Rollout<'_>, actions: &mut Vec<Action>) {
    let kept = rollout.spec.revision_history_limit.unwrap_or(10);
    let kept = usize::try_from(kept).unwrap_or_default();
    let surplus = rollout.old.len().saturating_sub(kept);
    for set in rollout.old.iter().take(surplus) {
        let pods = set.status.as_ref().map_or(0, |status| status.replicas);
        if replica_sets::wanted(set) == 0 && pods == 0 {
            actions.push(Action::DeleteReplicaSet(key(*set)));
        }
    }
}

fn replica_set(rollout: &Rollout<'_>, replicas: usize) -> ReplicaSet {
    let mut template = rollout.spec.template.clone();
    let labels = &mut template.metadata.get_or_insert_default().labels;
    let hash = (HASH.to_owned(), rollout.hash.clone());
    labels.get_or_insert_default().extend([hash.clone()]);
    let labels = labels.clone();
    let mut selector = rollout.spec.selector.clone();
    selector.match_labels.get_or_insert_default().extend([hash]);
    let last = rollout.old.iter().map(|set| revision(set)).max();
    let revision = last.unwrap_or_default() + 1;
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}-{}",
                rollout.deployment.name_any(),
                rollout.hash
            )),
            namespace: rollout.deployment.metadata.namespace.clone(),
            labels,
            annotations: Some([(REVISION.to_owned(), revision.to_string())].into()),
            owner_references: owned_pods::owner_references(rollout.deployment),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(owned_pods::number(replicas)),
            selector,
            template: Some(template),
            min_ready_seconds: rollout.spec.min_ready_seconds,
        }),
        status: None,
    }
}

/// The reason of the condition Progressing when the rollout of a set of pods has ended.
const AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// `progressDeadlineSeconds` of a Deployment that sets none.
const DEFAULT_DEADLINE: i32 = 600;

/// The condition Progressing.
struct Progress {
    status: bool,
    reason: Cow<'static, str>,
    message: String,
    /// True if the rollout has made progress since the last status, so that its deadline starts again.
    is_new: bool,
    /// The last progress of an unfinished rollout, and the time until its deadline.
    deadline: Option<(jiff::Timestamp, Duration)>,
}

impl Progress {
    fn of(rollout: &Rollout<'_>, refusal: Option<&Refusal>, now: jiff::Timestamp) -> Self {
        let set = rollout.set_name();
        let quoted = format!("\"{set}\"");
        let new = |status, reason: &'static str, message: String| Self {
            status,
            reason: reason.into(),
            message,
            is_new: true,
            deadline: None,
        };
        let before = rollout.deployment.status.as_ref();
        let conditions = before.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let last = conditions.find(|condition| condition.type_ == "Progressing");
        // The condition of another set of pods belongs to an earlier rollout.
        let last = last.filter(|condition| {
            let message = condition.message.as_deref().unwrap_or_default();
            message.contains(&quoted)
        });
        let is_updated = rollout.all.0 == rollout.updated.0;
        if rollout.updated.1 >= rollout.wanted && is_updated {
            let message = format!("ReplicaSet {quoted} has successfully progressed.");
            return Self {
                is_new: false,
                ..new(true, AVAILABLE, message)
            };
        }
        if let (Some(refusal), None) = (refusal, rollout.current) {
            let message = format!(
                "Failed to create new replica set {quoted}: {}",
                refusal.message
            );
            return Self {
                is_new: last.is_none(),
                ..new(false, "ReplicaSetCreateError", message)
            };
        }
        let keep = |last: &DeploymentCondition| Self {
            status: last.status == "True",
            reason: last.reason.clone().unwrap_or_default().into(),
            message: last.message.clone().unwrap_or_default(),
            is_new: false,
            deadline: None,
        };
        let has_reason = |condition: &&DeploymentCondition, reason: &str| {
            condition.reason.as_deref() == Some(reason)
        };
        // A pod that is no longer ready does not start a rollout.
        if let Some(last) = last.filter(|last| is_updated && has_reason(last, AVAILABLE)) {
            return keep(last);
        }
        let Some(last) = last.filter(|_| !rollout.has_progressed()) else {
            let message = format!("ReplicaSet {quoted} is progressing.");
            return Self {
                deadline: rollout.deadline(now),
                ..new(true, "ReplicaSetUpdated", message)
            };
        };
        let since = last.last_update_time.as_ref().map_or(now, |time| time.0);
        let deadline = rollout.deadline(since);
        let deadline = deadline.filter(|_| !has_reason(&last, TIMED_OUT));
        let is_over = deadline
            .is_some_and(|(since, left)| since.saturating_add(left).is_ok_and(|end| end <= now));
        if is_over {
            let message = format!("ReplicaSet {quoted} has timed out progressing.");
            return new(false, TIMED_OUT, message);
        }
        Self {
            deadline,
            ..keep(last)
        }
    }
}

impl Rollout<'_> {
    /// Returns the name of the current ReplicaSet, which may not exist yet.
    fn set_name(&self) -> String {
        self.current.map_or_else(
            || format!("{}-{}", self.deployment.name_any(), self.hash),
            kube::ResourceExt::name_any,
        )
    }

    /// Reports whether more pods are updated or ready, or fewer are outdated, than in the last status.
    fn has_progressed(&self) -> bool {
        let before = self.deployment.status.clone().unwrap_or_default();
        let count = |number: Option<i32>| usize::try_from(number.unwrap_or(0)).unwrap_or_default();
        let (all, updated) = (count(before.replicas), count(before.updated_replicas));
        self.updated.0 > updated
            || self.all.0 - self.updated.0 < all.saturating_sub(updated)
            || self.all.1 > count(before.ready_replicas)
    }

    /// Returns the start of the deadline and its length. A paused rollout has no deadline.
    fn deadline(&self, since: jiff::Timestamp) -> Option<(jiff::Timestamp, Duration)> {
        let seconds = self
            .spec
            .progress_deadline_seconds
            .unwrap_or(DEFAULT_DEADLINE);
        let is_running = seconds != i32::MAX && self.spec.paused != Some(true);
        let seconds = u64::try_from(seconds).ok().filter(|_| is_running)?;
        Some((since, Duration::from_secs(seconds)))
    }

    /// Returns the condition of a ReplicaSet whose pods are refused.
    fn replica_failure(&self) -> Option<(String, String)> {
        let sets = self.current.into_iter().chain(self.old.iter().copied());
        let mut conditions = sets.filter_map(|set| set.status.as_ref()?.conditions.as_ref());
        let failure = conditions
            .find_map(|conditions| conditions.iter().find(|c| c.type_ == REPLICA_FAILURE))?;
        Some((
            failure.reason.clone().unwrap_or_default(),
            failure.message.clone().unwrap_or_default(),
        ))
    }
}

fn status(rollout: &Rollout<'_>, progress: &Progress, now: jiff::Timestamp) -> DeploymentStatus {
    let (_, missing) = rollout.limits();
    let available = rollout.all.1 >= rollout.wanted.saturating_sub(missing);
    let before = rollout.deployment.status.clone().unwrap_or_default();
    let known = before.conditions.unwrap_or_default();
    let mut conditions = vec![if available {
        condition(
            &known,
            (
                "Available",
                true,
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.".to_owned(),
            ),
            false,
            now,
        )
    } else {
        condition(
            &known,
            (
                "Available",
                false,
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.".to_owned(),
            ),
            false,
            now,
        )
    }];
    if rollout.spec.progress_deadline_seconds != Some(i32::MAX) {
        let said = (
            "Progressing",
            progress.status,
            &*progress.reason,
            progress.message.clone(),
        );
        conditions.push(condition(&known, said, progress.is_new, now));
    }
    if let Some((reason, message)) = rollout.replica_failure() {
        let said = (REPLICA_FAILURE, true, &*reason, message);
        conditions.push(condition(&known, said, false, now));
    }
    DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: owned_pods::nonzero(rollout.all.0),
        updated_replicas: owned_pods::nonzero(rollout.updated.0),
        ready_replicas: owned_pods::nonzero(rollout.all.1),
        available_replicas: owned_pods::nonzero(rollout.all.1),
        unavailable_replicas: owned_pods::nonzero(
            rollout
                .wanted
                .max(rollout.all.0)
                .saturating_sub(rollout.all.1),
        ),
        conditions: Some(conditions),
        ..DeploymentStatus::default()
    }
}

/// Returns a condition. A condition with an unchanged status keeps its transition time. With `is_new`, an unchanged
/// condition gets a new update time.
fn condition(
    known: &[DeploymentCondition],
    (kind, status, reason, message): (&str, bool, &str, String),
    is_new: bool,
    now: jiff::Timestamp,
) -> DeploymentCondition {
    let status = if status { "True" } else { "False" };
    let before = known.iter().find(|condition| condition.type_ == kind);
    let same = before.filter(|condition| {
        !is_new
            && condition.status == status
            && condition.reason.as_deref() == Some(reason)
            && condition.message.as_ref() == Some(&message)
    });
    if let Some(same) = same {
        return same.clone();
    }
    let now = Time(whole_seconds(now));
    let since = before
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time.clone());
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(since.unwrap_or(now)),
    }
}
