//! Jobs: pods until so many have succeeded, or too many have failed. Indexed completions, policies about failures and
//! the removal of finished Jobs are not simulated.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::controlled::{self, Pods};
use crate::template;
use crate::world::{World, key};

pub(crate) fn plan(
    world: &World,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    for job in world.jobs.iter() {
        if let (Some(spec), None) = (&job.spec, &job.metadata.deletion_timestamp)
            && !is_over(job)
        {
            one(job, spec, pods, now, actions);
        }
    }
}

fn is_over(job: &Job) -> bool {
    let status = job.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}

fn count(value: Option<i32>, otherwise: usize) -> usize {
    value.map_or(otherwise, |value| {
        usize::try_from(value).unwrap_or_default()
    })
}

fn one(
    job: &Job,
    spec: &JobSpec,
    pods: &Pods<'_>,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    let all = pods.controlled_by(job);
    let of = |phase: &str| {
        all.iter()
            .filter(|pod| controlled::phase(pod) == phase)
            .count()
    };
    let (succeeded, failed) = (of("Succeeded"), of("Failed"));
    let active: Vec<&&Pod> = all
        .iter()
        .filter(|pod| !controlled::is_finished(pod))
        .collect();
    let ready = active
        .iter()
        .filter(|pod| controlled::is_ready(pod))
        .count();
    let parallelism = count(spec.parallelism, 1);
    let gave_up = failed > count(spec.backoff_limit, 6);
    let suspended = spec.suspend.unwrap_or(false);
    // Without a number of completions, one success says that there is no more work.
    let complete = match spec.completions {
        Some(completions) => succeeded >= count(Some(completions), 1),
        None => succeeded > 0 && active.is_empty(),
    };
    let left = match spec.completions {
        Some(completions) => count(Some(completions), 1).saturating_sub(succeeded),
        None if succeeded > 0 => active.len(),
        None => parallelism,
    };
    let wanted = if gave_up || suspended || complete {
        0
    } else {
        left.min(parallelism)
    };
    for pod in active
        .iter()
        .rev()
        .take(active.len().saturating_sub(wanted))
    {
        actions.push(Action::DeletePod(key(**pod)));
    }
    let names: BTreeSet<String> = all.iter().map(|pod| pod.name_any()).collect();
    let fresh = template::fresh_names(job.name_any(), now);
    let missing = wanted.saturating_sub(active.len());
    for name in fresh.filter(|name| !names.contains(name)).take(missing) {
        let namespace = job.metadata.namespace.as_ref();
        let pod = template::pod(&spec.template, namespace, name, controlled::by(job));
        actions.push(Action::CreatePod(Box::new(pod)));
    }

    let before = job.status.clone().unwrap_or_default();
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    let mut status = JobStatus {
        active: controlled::some(active.len()),
        ready: Some(controlled::number(ready)),
        succeeded: controlled::some(succeeded),
        failed: controlled::some(failed),
        terminating: Some(0),
        uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
        start_time: match suspended {
            true => None,
            false => before.start_time.or_else(|| Some(now.clone())),
        },
        ..JobStatus::default()
    };
    let condition = |kind: &str, reason: &str, message: &str| JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    if complete {
        let reached = "Reached expected number of succeeded pods";
        status.conditions = Some(vec![
            condition("SuccessCriteriaMet", "CompletionsReached", reached),
            condition("Complete", "CompletionsReached", reached),
        ]);
        status.completion_time = Some(now.clone());
        status.active = None;
        status.ready = Some(0);
    } else if gave_up {
        let message = "Job has reached the specified backoff limit";
        status.conditions = Some(vec![
            condition("FailureTarget", "BackoffLimitExceeded", message),
            condition("Failed", "BackoffLimitExceeded", message),
        ]);
        status.active = None;
        status.ready = Some(0);
    } else if suspended {
        let before = before.conditions.into_iter().flatten();
        let same = before
            .into_iter()
            .find(|condition| condition.type_ == "Suspended");
        status.conditions =
            Some(vec![same.unwrap_or_else(|| {
                condition("Suspended", "JobSuspended", "Job suspended")
            })]);
    }
    if job.status.as_ref() != Some(&status) {
        let mut job = job.clone();
        job.status = Some(status);
        actions.push(Action::JobStatus(Box::new(job)));
    }
}
