//! The observation of a migration: the shares of a binding, from its spec and the reports in its Works, and the reason for
//! which the binding waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::binding::{BindingSpec, GracefulEvictionTask, ResourceHealth, TargetCluster};
use berth_api::placement::ReplicaSchedulingType;
use berth_api::replica_limits::{ReplicaFit, ReplicaLimits};
use berth_api::well_known::{
    CONDITION_APPLIED, CONDITION_MIGRATING, CONDITION_READY, LAST_HEALTHY_COPY, MAX_MOVING,
    MAX_SURGE, PREEMPTED, REPLICA_LIMITS, WAITING_FOR_REPLICAS, WAITING_FOR_WORKLOAD,
};
use berth_api::{Binding, Cluster, Work, condition};
use berth_apimachinery::json_fields::kind_of;
use berth_apimachinery::timestamp::whole_seconds;
use berth_interpreter::{InterpretError, Interpreter};
use jiff::Timestamp;
use serde_json::Value;

use super::{Limits, MemberState, Patience, Share, plan};
use crate::propagation::binding::sync_input::SyncInput;
use crate::propagation::binding::targets::directly_purged;

/// The unit of the numbers of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// The replicas are divided among the clusters.
    Replicas,
    /// Each cluster has a copy with all replicas.
    Copies,
}

/// The numbers that the clusters of a binding get now, and the reason to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Migration {
    granted: BTreeMap<String, Grant>,
    /// The clusters that are no targets, and in which a workload needs the resource.
    needed_in: BTreeSet<String>,
    /// True if new replicas need the room of the old ones, also where an eviction task keeps them.
    needs_room: bool,
    /// The reason to wait, or `None` if each cluster has the number that the scheduler decided.
    pub(crate) wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant {
    unit: Unit,
    applied: i64,
    now: i64,
}

/// The Work of a cluster, as the migration leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The Work is deleted.
    Delete,
    /// The Work stays as it is.
    Keep,
    /// The Work stays with fewer replicas.
    Reduce(i32),
}

/// The cause of a wait, which is the reason of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// New replicas are not ready yet.
    Replicas,
    /// No other copy is healthy, or no cluster fits. The time limit does not end this wait.
    LastCopy,
    /// A workload that needs the resource has not left yet.
    Workload,
    /// The copy leaves for a binding of higher priority, at the end of its grace period.
    Preemption,
}

impl Cause {
    pub(crate) const ALL: [Self; 4] = [
        Self::Replicas,
        Self::LastCopy,
        Self::Workload,
        Self::Preemption,
    ];

    /// Returns the reason of the condition.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Replicas => WAITING_FOR_REPLICAS,
            Self::LastCopy => LAST_HEALTHY_COPY,
            Self::Workload => WAITING_FOR_WORKLOAD,
            Self::Preemption => PREEMPTED,
        }
    }
}

/// The reason for which old copies of a binding wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The clusters that are no targets, and keep a copy.
    pub(crate) kept: BTreeSet<String>,
    pub(crate) cause: Cause,
    /// The message for people.
    pub(crate) message: String,
    /// The time at which the wait ends at the latest, or `None` if it lasts as long as its reason.
    pub(crate) until: Option<Timestamp>,
}

impl Migration {
    /// Observes the migration of a binding. `timeout` is the time after which old copies leave although the new ones are
    /// not ready.
    ///
    /// # Errors
    /// When the replicas of a Work cannot be interpreted.
    pub(crate) fn observe(
        input: &SyncInput,
        template: &Value,
        timeout: Duration,
        now: Timestamp,
        rules: &Interpreter,
    ) -> Result<Self, InterpretError> {
        let binding = &input.binding;
        let Some(unit) = unit(&binding.spec) else {
            return Ok(Self::following(input));
        };
        let timeout = grace_period(&binding.spec).unwrap_or(timeout);
        let since = waiting_since(binding).unwrap_or(now);
        let until = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
        let patience = if now < until {
            Patience::Waiting
        } else {
            Patience::Expired
        };
        let targets: BTreeMap<String, i64> = binding
            .spec
            .targets()
            .into_iter()
            .map(|target| (target.name, i64::from(target.replicas)))
            .collect();
        let names: BTreeSet<&String> = targets.keys().chain(input.works.keys()).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let mut shares = Vec::with_capacity(names.len());
        for name in &names {
            let desired = match unit {
                Unit::Replicas => targets.get(*name).copied().unwrap_or(0),
                Unit::Copies => i64::from(targets.contains_key(*name)),
            };
            let works = input.works.get(*name).map_or(&[][..], Vec::as_slice);
            let mut share = reported(works, unit, rules)?;
            share.desired = desired;
            let unreported = input.unreported.get(*name);
            if let Some(least) = unreported.filter(|_| patience == Patience::Waiting) {
                // The report may count replicas that have been removed since. If the member has not noticed the change
                // before it was reversed, no other report follows.
                share.ready = share.ready.min(*least);
            }
            share.member = member_state(&binding.spec, input.clusters.get(*name), name);
            let is_unwanted = targets.is_empty() && input.deselected.contains(*name);
            if has_been_preempted(binding) && desired == 0 || is_unwanted {
                share.member = MemberState::Gone;
            }
            shares.push(share);
        }
        let desired: i64 = shares.iter().map(|share| share.desired).sum();
        let wanted = match unit {
            Unit::Replicas => wanted_replicas(binding, desired),
            Unit::Copies => desired.max(1),
        };
        let undecided = match unit {
            Unit::Replicas => 0,
            Unit::Copies => undecided_copies(input, &targets),
        };
        let limits = Limits {
            wanted,
            undecided,
            surge: limit(binding, template, MAX_SURGE, wanted),
            moving: limit(binding, template, MAX_MOVING, wanted),
            patience,
        };
        let granted = plan(&shares, &limits);
        let mut wait = wait(&names, &shares, &granted, &limits, until);
        if is_preempted(binding)
            && let Some(wait) = &mut wait
        {
            wait.cause = Cause::Preemption;
            "a binding of higher priority takes the place; the old copy stays for its grace period"
                .clone_into(&mut wait.message);
        }
        let mut numbers = shares.iter().zip(&granted);
        let waits_for_room = numbers.any(|(share, granted)| *granted < share.desired);
        let granted = names.iter().zip(&shares).zip(granted);
        let granted = granted.map(|((name, share), now)| {
            let applied = share.applied;
            ((*name).clone(), Grant { unit, applied, now })
        });
        Ok(Self {
            granted: granted.collect(),
            needs_room: limits.surge.is_some() && waits_for_room,
            wait,
            ..Self::default()
        })
    }

    /// Returns the migration of a resource that leaves clusters after the workloads that need it.
    fn following(input: &SyncInput) -> Self {
        let expected = input.binding.spec.expected_clusters();
        let former = input.works.keys().filter(|name| !expected.contains(*name));
        let needed = former.filter(|name| input.needed_in.contains(*name));
        let needed_in: BTreeSet<String> = needed.cloned().collect();
        let names: Vec<&str> = needed_in.iter().map(String::as_str).collect();
        let wait = (!names.is_empty()).then(|| Wait {
            kept: needed_in.clone(),
            cause: Cause::Workload,
            message: format!(
                "stays in {} until the workload that needs it has left",
                names.join(", ")
            ),
            until: None,
        });
        Self {
            needed_in,
            wait,
            ..Self::default()
        }
    }

    /// Returns the clusters whose Works do not leave: the targets, and the clusters of eviction tasks. While new replicas wait
    /// for room, the copy of an eviction task leaves like others, because the task waits for these replicas. A user may
    /// keep the copy, and a preempted copy has its grace period.
    pub(crate) fn expected_clusters(&self, spec: &BindingSpec) -> BTreeSet<String> {
        let mut expected = spec.expected_clusters();
        if self.needs_room {
            let tasks = spec.graceful_eviction_tasks.iter();
            let stays = |task: &&GracefulEvictionTask| {
                task.suppress_deletion == Some(true) || task.reason == PREEMPTED
            };
            let staying = tasks.filter(stays).map(|task| task.from_cluster.clone());
            let targets = spec.targets().into_iter().map(|target| target.name);
            let staying: BTreeSet<String> = staying.chain(targets).collect();
            expected.retain(|cluster| staying.contains(cluster));
        }
        expected
    }

    /// Returns what happens to the Work of a cluster that is no target.
    pub(crate) fn leaving(&self, cluster: &str) -> Leaving {
        match self.granted.get(cluster) {
            None if self.needed_in.contains(cluster) => Leaving::Keep,
            None => Leaving::Delete,
            Some(grant) if grant.now == 0 => Leaving::Delete,
            Some(grant) if grant.unit == Unit::Copies || grant.now >= grant.applied => {
                Leaving::Keep
            }
            Some(grant) => Leaving::Reduce(replicas(grant.now)),
        }
    }

    /// Returns the targets that get a Work now, with their replicas.
    pub(crate) fn targets(&self, spec: &BindingSpec) -> Vec<TargetCluster> {
        let targets = spec.targets().into_iter().filter_map(|mut target| {
            target.replicas = self.replicas(&target.name, target.replicas)?;
            Some(target)
        });
        targets.collect()
    }

    /// Returns the replicas that a target gets now, or `None` if it gets no Work yet. `decided` is the number of the
    /// scheduler.
    fn replicas(&self, cluster: &str, decided: i32) -> Option<i32> {
        match self.granted.get(cluster) {
            None => Some(decided),
            Some(grant) => match grant.unit {
                Unit::Copies => (grant.now > 0).then_some(decided),
                // A target without replicas has a Work, too.
                Unit::Replicas => (grant.now > 0 || decided == 0 || grant.applied > 0)
                    .then_some(replicas(grant.now)),
            },
        }
    }
}

/// Returns the number of replicas that are wanted in all clusters together. `desired` is the number that the scheduler has
/// placed.
///
/// After an eviction, the scheduler has not placed all replicas again yet. With the limits `"fit": "BestEffort"`, further
/// replicas may have no place, now and before: they wait, and do not move.
fn wanted_replicas(binding: &Binding, desired: i64) -> i64 {
    let spec = &binding.spec;
    let all = desired.max(spec.replicas.into());
    let limits = ReplicaLimits::parse(binding.annotation(REPLICA_LIMITS));
    if !limits.is_ok_and(|limits| limits.fit == ReplicaFit::BestEffort) {
        return all;
    }
    if binding.status.scheduler_observed_generation == Some(binding.generation()) {
        return desired;
    }
    let evicted = spec.graceful_eviction_tasks.iter();
    let evicted = evicted
        .filter(|task| {
            let mut targets = spec.clusters.iter();
            !targets.any(|target| target.name == task.from_cluster)
        })
        .map(|task| i64::from(task.replicas.unwrap_or(0)));
    all.min(desired.saturating_add(evicted.sum()))
}

/// Converts a number to the type of the API.
fn replicas(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Reports whether a resource runs pods. The others follow the workloads that need them.
pub fn runs_pods(spec: &BindingSpec) -> bool {
    let kind = (&*spec.resource.api_version, &*spec.resource.kind);
    spec.is_workload() || kind == ("apps/v1", "DaemonSet")
}

/// Returns the unit in which a workload migrates, or `None` if its copies need not wait for each other. A Job must not run
/// twice.
fn unit(spec: &BindingSpec) -> Option<Unit> {
    let kind = (&*spec.resource.api_version, &*spec.resource.kind);
    if kind == ("batch/v1", "Job") || !runs_pods(spec) {
        return None;
    }
    let placement = spec.placement.as_ref()?;
    let is_divided = placement.scheduling_type() == ReplicaSchedulingType::Divided;
    Some(if is_divided && spec.replicas > 0 {
        Unit::Replicas
    } else {
        Unit::Copies
    })
}

/// Returns the number of evicted copies that the scheduler may still place elsewhere. A copy that waits for an evicted one
/// then waits for the decision. Without such a copy, the eviction tasks alone keep what is needed.
fn undecided_copies(input: &SyncInput, targets: &BTreeMap<String, i64>) -> i64 {
    let Binding { spec, status, .. } = &*input.binding;
    if status.scheduler_observed_generation == Some(input.binding.generation()) {
        return 0;
    }
    let tasks = spec.graceful_eviction_tasks.iter();
    let evicted: BTreeSet<&String> = tasks
        .map(|task| &task.from_cluster)
        .filter(|cluster| !targets.contains_key(*cluster))
        .collect();
    let mut works = input.works.keys();
    let waits = works.any(|cluster| !targets.contains_key(cluster) && !evicted.contains(cluster));
    if waits {
        i64::try_from(evicted.len()).unwrap_or(i64::MAX)
    } else {
        0
    }
}

/// Returns the share that the Works of a cluster report.
fn reported(works: &[Arc<Work>], unit: Unit, rules: &Interpreter) -> Result<Share, InterpretError> {
    let mut share = Share::default();
    for work in works {
        let Some(manifest) = work.spec.workload.manifests.first() else {
            continue;
        };
        let (api_version, kind) = kind_of(manifest);
        let replicas = match unit {
            Unit::Copies => 1,
            Unit::Replicas => rules
                .replicas(api_version, kind, manifest)?
                .map_or(0, |read| read.replicas.into()),
        };
        let status = work.status.clone().unwrap_or_default();
        let report = status.manifest_statuses.first();
        // A member may report any number.
        let number = |field: &str| {
            let number = report?.status.as_ref()?.get(field)?.as_i64()?;
            Some(number.clamp(0, i32::MAX.into()))
        };
        let is_applied = condition::is_true(&status.conditions, CONDITION_APPLIED);
        let is_healthy = is_applied
            && report.is_some_and(|report| report.health != Some(ResourceHealth::Unhealthy));
        let (ready, running) = match unit {
            Unit::Copies => (i64::from(is_healthy), 1),
            Unit::Replicas => (
                number("readyReplicas").unwrap_or(if is_healthy { replicas } else { 0 }),
                number("replicas").unwrap_or(replicas),
            ),
        };
        share.ready += ready;
        share.running += running;
        // A Work that is being deleted gives its replicas up.
        if work.metadata.deletion_timestamp.is_none() {
            share.applied += replicas;
        }
    }
    Ok(share)
}

fn member_state(spec: &BindingSpec, cluster: Option<&Arc<Cluster>>, name: &str) -> MemberState {
    let Some(cluster) = cluster else {
        return MemberState::Gone;
    };
    if cluster.metadata.deletion_timestamp.is_some() || directly_purged(spec).contains(name) {
        return MemberState::Gone;
    }
    let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
    if condition::is_true(conditions.unwrap_or_default(), CONDITION_READY) {
        MemberState::Reporting
    } else {
        MemberState::Silent
    }
}

/// Reports whether a copy of a binding leaves for a binding of higher priority.
fn is_preempted(binding: &Binding) -> bool {
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    tasks.any(|task| task.reason == PREEMPTED)
}

/// Reports whether the grace period of a preempted copy has ended. The condition says that there was such a copy.
fn has_been_preempted(binding: &Binding) -> bool {
    let migrating = condition::find(&binding.status.conditions, CONDITION_MIGRATING);
    migrating.is_some_and(|migrating| migrating.reason == PREEMPTED) && !is_preempted(binding)
}

/// Returns the time since which a binding waits: since its condition says so, or since a later decision of the scheduler.
fn waiting_since(binding: &Binding) -> Option<Timestamp> {
    let migrating = condition::find(&binding.status.conditions, CONDITION_MIGRATING)?;
    let decided = binding
        .status
        .last_scheduled_time
        .as_ref()
        .map(|time| time.0);
    Some(migrating.last_transition_time.0).max(decided)
}

/// Returns the time for which the failover of a policy lets old copies wait.
fn grace_period(spec: &BindingSpec) -> Option<Duration> {
    let seconds = spec
        .failover
        .as_ref()?
        .application
        .as_ref()?
        .grace_period_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Returns the limit in an annotation of the template or, without it, of the binding, which has those of the policy: a
/// number, or a percentage of `wanted`, which is rounded up. An annotation of another form has no effect.
fn limit(binding: &Binding, template: &Value, annotation: &str, wanted: i64) -> Option<i64> {
    let annotations = template.pointer("/metadata/annotations");
    let of_template = annotations.and_then(|all| all.get(annotation)?.as_str());
    let text = of_template
        .unwrap_or_else(|| binding.annotation(annotation))
        .trim();
    match text.strip_suffix('%') {
        None => text.parse().ok().filter(|number| *number >= 0),
        Some(percent) => {
            let percent: i64 = percent.trim().parse().ok().filter(|number| *number >= 0)?;
            Some(percent.saturating_mul(wanted).saturating_add(99) / 100)
        }
    }
}

/// Returns the reason for which the binding waits.
fn wait(
    names: &[&String],
    shares: &[Share],
    granted: &[i64],
    limits: &Limits,
    until: Timestamp,
) -> Option<Wait> {
    let all = || names.iter().zip(shares).zip(granted);
    let kept: Vec<String> = all()
        .filter(|((_, share), granted)| **granted > share.desired)
        .map(|((name, share), granted)| format!("{name} keeps {}", granted - share.desired))
        .collect();
    let held: Vec<&str> = all()
        .filter(|((_, share), granted)| **granted < share.desired)
        .map(|((name, _), _)| name.as_str())
        .collect();
    if kept.is_empty() && held.is_empty() {
        return None;
    }
    let ready: i64 = shares.iter().map(|share| share.secured()).sum();
    let wanted = limits.wanted;
    let mut message = format!("{ready} of {wanted} are ready where the scheduler put them");
    if !kept.is_empty() {
        message = format!("{message}; {}", kept.join(", "));
    }
    if !held.is_empty() {
        message = format!("{message}; {} wait for room", held.join(", "));
    }
    if let Some(moving) = limits.moving {
        message = format!("{message}; at most {moving} may move at a time");
    }
    let has_place = shares.iter().any(|share| share.desired > 0);
    let until = (has_place && limits.patience == Patience::Waiting).then_some(until);
    let is_last =
        until.is_none() && !kept.is_empty() && limits.moving.is_none_or(|moving| moving >= wanted);
    if let Some(until) = until {
        message = format!("{message}; until {}", whole_seconds(until));
    } else if is_last {
        message.push_str(", the last healthy copy");
    }
    Some(Wait {
        kept: all()
            .filter(|((_, share), granted)| share.desired == 0 && **granted > 0)
            .map(|((name, _), _)| (*name).clone())
            .collect(),
        cause: if is_last {
            Cause::LastCopy
        } else {
            Cause::Replicas
        },
        message,
        until,
    })
}

#[cfg(test)]
mod tests;
