//! Deployments: one ReplicaSet for each template, and rolling updates within the limits of the strategy.
//!
//! The ReplicaSet of an old template remains without pods, up to the history limit. If a Deployment returns to an old
//! template, the ReplicaSet of this template is used again and becomes the latest revision.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

use crate::action::{Action, REVISION};
use crate::cache::{Cache, key};
use crate::owned_pods::{self, Pods};
use crate::pod_template;
use crate::replica_sets;
use crate::scope::Scope;

const HASH: &str = "pod-template-hash";

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
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
        plan_rollout(&Rollout::of(deployment, spec, &own, pods), now, actions);
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

fn plan_rollout(rollout: &Rollout<'_>, now: jiff::Timestamp, actions: &mut Vec<Action>) {
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
    let status = status(rollout, now);
    if rollout.deployment.status.as_ref() != Some(&status) {
        let mut deployment = rollout.deployment.clone();
        deployment.status = Some(status);
        actions.push(Action::DeploymentStatus(Box::new(deployment)));
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

fn status(rollout: &Rollout<'_>, now: jiff::Timestamp) -> DeploymentStatus {
    let (_, missing) = rollout.limits();
    let available = rollout.all.1 >= rollout.wanted.saturating_sub(missing);
    let complete = rollout.updated.1 >= rollout.wanted && rollout.all.0 == rollout.updated.0;
    let set = rollout.current.map_or_else(
        || rollout.deployment.name_any(),
        kube::ResourceExt::name_any,
    );
    let conditions = vec![
        if available {
            (
                "Available",
                true,
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.".to_owned(),
            )
        } else {
            (
                "Available",
                false,
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.".to_owned(),
            )
        },
        if complete {
            (
                "Progressing",
                true,
                "NewReplicaSetAvailable",
                format!("ReplicaSet \"{set}\" has successfully progressed."),
            )
        } else {
            (
                "Progressing",
                true,
                "ReplicaSetUpdated",
                format!("ReplicaSet \"{set}\" is progressing."),
            )
        },
    ];
    let before = rollout.deployment.status.clone().unwrap_or_default();
    let known = before.conditions.unwrap_or_default();
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
        conditions: Some(
            conditions
                .into_iter()
                .map(|said| condition(&known, said, now))
                .collect(),
        ),
        ..DeploymentStatus::default()
    }
}

/// Returns a condition. A condition with an unchanged status keeps its transition time.
fn condition(
    known: &[DeploymentCondition],
    (kind, status, reason, message): (&str, bool, &str, String),
    now: jiff::Timestamp,
) -> DeploymentCondition {
    let status = if status { "True" } else { "False" };
    let before = known.iter().find(|condition| condition.type_ == kind);
    let same = before.filter(|condition| {
        condition.status == status
            && condition.reason.as_deref() == Some(reason)
            && condition.message.as_ref() == Some(&message)
    });
    if let Some(same) = same {
        return same.clone();
    }
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
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
