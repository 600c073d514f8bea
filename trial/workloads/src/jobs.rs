//! Jobs: they create pods until enough pods have succeeded or too many have failed. Failure policies, success
//! policies and limits for each index are not simulated. The API server deletes finished Jobs after their TTL.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::completion_indexes;
use crate::owned_pods::{self, Pods};
use crate::plan::Plan;
use crate::pod_template;
use crate::scope::Scope;

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    plan: &mut Plan,
) {
    let of_scope = |job: &&Job| scope.covers(&job.metadata);
    for job in cache.jobs.iter().filter(of_scope) {
        let (Some(spec), None) = (&job.spec, &job.metadata.deletion_timestamp) else {
            continue;
        };
        if reported_state(job) == JobState::Unfinished {
            plan_job(job, spec, pods, now, plan);
        }
    }
}

/// Returns the state of a Job according to its status: `Complete`, `Failed` or `Unfinished`.
pub(crate) fn reported_state(job: &Job) -> JobState {
    let Some(condition) = last_condition(job) else {
        return JobState::Unfinished;
    };
    if condition.type_ == "Complete" {
        return JobState::Complete;
    }
    let is_deadline = condition.reason.as_deref() == Some(Failure::Deadline.reason());
    JobState::Failed(if is_deadline {
        Failure::Deadline
    } else {
        Failure::BackoffLimit
    })
}

/// Returns the condition that marks a Job as finished.
fn last_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}

fn count(value: Option<i32>, otherwise: usize) -> usize {
    value.map_or(otherwise, |value| {
        usize::try_from(value).unwrap_or_default()
    })
}

/// The pods of a Job, counted by their phases.
struct PodCounts<'a> {
    all: Vec<&'a Pod>,
    active: Vec<&'a Pod>,
    succeeded: usize,
    failed: usize,
    /// The succeeded indexes of an Indexed Job.
    indexes: Option<BTreeSet<usize>>,
    state: JobState,
}

/// The state of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    Unfinished,
    Suspended,
    Complete,
    Failed(Failure),
}

/// The reason for which a Job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// More pods failed than `backoffLimit` allows.
    BackoffLimit,
    /// The Job was active for longer than `activeDeadlineSeconds`.
    Deadline,
}

impl Failure {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::BackoffLimit => "BackoffLimitExceeded",
            Self::Deadline => "DeadlineExceeded",
        }
    }

    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::BackoffLimit => "Job has reached the specified backoff limit",
            Self::Deadline => "Job was active longer than specified deadline",
        }
    }
}

impl<'a> PodCounts<'a> {
    fn of(spec: &JobSpec, all: Vec<&'a Pod>, is_overdue: bool) -> Self {
        let of = |phase: &str| {
            let pods = all.iter().filter(|pod| owned_pods::phase(pod) == phase);
            pods.count()
        };
        let (succeeded, failed) = (of("Succeeded"), of("Failed"));
        let numbered = spec.completion_mode.as_deref() == Some("Indexed");
        let indexes: Option<BTreeSet<usize>> = numbered.then(|| {
            let pods = all
                .iter()
                .filter(|pod| owned_pods::phase(pod) == "Succeeded");
            pods.filter_map(|pod| completion_indexes::of(pod)).collect()
        });
        let succeeded = indexes.as_ref().map_or(succeeded, BTreeSet::len);
        let live = all.iter().copied();
        let active: Vec<&Pod> = live.filter(|pod| !owned_pods::is_finished(pod)).collect();
        // A Job without `completions` is complete when a pod has succeeded and no pod is active.
        let complete = match spec.completions {
            Some(completions) => succeeded >= count(Some(completions), 1),
            None => succeeded > 0 && active.is_empty(),
        };
        let state = if complete {
            JobState::Complete
        } else if failed > count(spec.backoff_limit, 6) {
            JobState::Failed(Failure::BackoffLimit)
        } else if spec.suspend.unwrap_or(false) {
            JobState::Suspended
        } else if is_overdue {
            JobState::Failed(Failure::Deadline)
        } else {
            JobState::Unfinished
        };
        Self {
            all,
            active,
            succeeded,
            failed,
            indexes,
            state,
        }
    }

    /// Yields the indexes without an active or succeeded pod, the lowest first, without end. For a Job without indexes,
    /// yields `None` forever.
    fn unassigned_indexes(&self) -> Box<dyn Iterator<Item = Option<usize>> + '_> {
        let Some(done) = &self.indexes else {
            return Box::new(std::iter::repeat(None));
        };
        let active = self
            .active
            .iter()
            .filter_map(|pod| completion_indexes::of(pod));
        let taken: BTreeSet<usize> = active.chain(done.iter().copied()).collect();
        Box::new((0..).filter(move |index| !taken.contains(index)).map(Some))
    }

    /// Returns the desired number of unfinished pods.
    fn wanted(&self, spec: &JobSpec) -> usize {
        if self.state != JobState::Unfinished {
            return 0;
        }
        let parallelism = count(spec.parallelism, 1);
        let left = match spec.completions {
            Some(completions) => count(Some(completions), 1).saturating_sub(self.succeeded),
            None if self.succeeded > 0 => self.active.len(),
            None => parallelism,
        };
        left.min(parallelism)
    }

    fn status(&self, before: JobStatus, now: &Time) -> JobStatus {
        let ready = self.active.iter().filter(|pod| owned_pods::is_ready(pod));
        let is_finished = matches!(self.state, JobState::Complete | JobState::Failed(_));
        let conditions = match self.state {
            JobState::Unfinished => None,
            JobState::Suspended => Some(vec![("Suspended", "JobSuspended", "Job suspended")]),
            JobState::Complete => {
                let message = "Reached expected number of succeeded pods";
                Some(vec![
                    ("SuccessCriteriaMet", "CompletionsReached", message),
                    ("Complete", "CompletionsReached", message),
                ])
            }
            JobState::Failed(failure) => Some(vec![
                ("FailureTarget", failure.reason(), failure.message()),
                ("Failed", failure.reason(), failure.message()),
            ]),
        };
        let known = before.conditions.unwrap_or_default();
        JobStatus {
            active: if is_finished {
                None
            } else {
                owned_pods::nonzero(self.active.len())
            },
            ready: Some(if is_finished {
                0
            } else {
                owned_pods::number(ready.count())
            }),
            // The API server refuses counters that decrease, also when pods are deleted.
            succeeded: owned_pods::nonzero(self.succeeded).max(before.succeeded),
            failed: owned_pods::nonzero(self.failed).max(before.failed),
            completed_indexes: self
                .indexes
                .as_ref()
                .and_then(completion_indexes::format_indexes),
            terminating: Some(0),
            uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
            start_time: match self.state {
                JobState::Suspended => None,
                _ => before.start_time.or_else(|| Some(now.clone())),
            },
            completion_time: (self.state == JobState::Complete).then(|| now.clone()),
            conditions: conditions.map(|conditions| {
                let conditions = conditions.into_iter();
                conditions.map(|new| condition(&known, new, now)).collect()
            }),
            ..JobStatus::default()
        }
    }
}

/// Returns a condition. An existing condition remains unchanged.
fn condition(
    known: &[JobCondition],
    (kind, reason, message): (&str, &str, &str),
    now: &Time,
) -> JobCondition {
    let before = known.iter().find(|condition| condition.type_ == kind);
    before.cloned().unwrap_or_else(|| JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    })
}

/// Returns the start time of a Job, and the time until its deadline. A suspended Job has no deadline.
fn deadline(job: &Job, spec: &JobSpec) -> Option<(jiff::Timestamp, Duration)> {
    let seconds = u64::try_from(spec.active_deadline_seconds?).ok()?;
    let start = job.status.as_ref()?.start_time.as_ref()?;
    (spec.suspend != Some(true)).then_some((start.0, Duration::from_secs(seconds)))
}

fn plan_job(job: &Job, spec: &JobSpec, pods: &Pods<'_>, now: jiff::Timestamp, plan: &mut Plan) {
    let deadline = deadline(job, spec);
    let is_overdue = deadline
        .is_some_and(|(start, left)| start.saturating_add(left).is_ok_and(|end| end <= now));
    if let Some((start, left)) = deadline.filter(|_| !is_overdue) {
        plan.replan_after(job.metadata.uid.clone().unwrap_or_default(), start, left);
    }
    let counts = PodCounts::of(spec, pods.controlled_by(job), is_overdue);
    let actions = plan.of(&job.metadata);
    let wanted = counts.wanted(spec);
    let surplus = counts.active.len().saturating_sub(wanted);
    for pod in counts.active.iter().rev().take(surplus) {
        actions.push(Action::DeletePod(key(*pod)));
    }
    let mut names: BTreeSet<String> = counts.all.iter().map(|pod| pod.name_any()).collect();
    let missing = pods.claim(job, wanted.saturating_sub(counts.active.len()));
    for index in counts.unassigned_indexes().take(missing) {
        let prefix = match index {
            Some(index) => format!("{}-{index}", job.name_any()),
            None => job.name_any(),
        };
        let mut fresh = pod_template::fresh_names(prefix, now);
        let Some(name) = fresh.find(|name| names.insert(name.clone())) else {
            break;
        };
        let namespace = job.metadata.namespace.as_ref();
        let mut pod = pod_template::pod(
            &spec.template,
            namespace,
            name,
            owned_pods::owner_references(job),
        );
        if let Some(index) = index {
            completion_indexes::assign(&mut pod, &job.name_any(), index);
        }
        actions.push(Action::CreatePod(Box::new(pod)));
    }
    let now = Time(whole_seconds(now));
    let status = counts.status(job.status.clone().unwrap_or_default(), &now);
    if job.status.as_ref() != Some(&status) {
        let mut job = job.clone();
        job.status = Some(status);
        actions.push(Action::JobStatus(Box::new(job)));
    }
}
