//! CronJobs: they create a Job at each scheduled time, and limit the number of finished Jobs.

mod schedule;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::jobs::{self, JobState};
use crate::owned_pods;
use crate::plan::Plan;
use crate::scope::Scope;
use schedule::Schedule;

/// The annotation that contains the scheduled time of a Job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(crate) fn plan(cache: &Cache, scope: &Scope, now: Timestamp, plan: &mut Plan) {
    let of_scope = |cron: &&CronJob| scope.covers(&cron.metadata);
    for cron in cache.cron_jobs.iter().filter(of_scope) {
        if cron.metadata.deletion_timestamp.is_none() {
            plan_cron_job(cron, &cron.spec, cache, now, plan);
        }
    }
}

fn plan_cron_job(
    cron: &CronJob,
    spec: &CronJobSpec,
    cache: &Cache,
    now: Timestamp,
    plan: &mut Plan,
) {
    let own: Vec<&Job> = cache.jobs.iter().filter(|job| is_of(job, cron)).collect();
    let active: Vec<&Job> = own
        .iter()
        .copied()
        .filter(|job| jobs::reported_state(job) == JobState::Unfinished)
        .collect();
    let before = cron.status.clone().unwrap_or_default();
    let status = status(&own, &active, before);
    let last = status.last_schedule_time.as_ref().map(|time| time.0);
    if cron.status.as_ref() != Some(&status) {
        let mut changed = cron.clone();
        changed.status = Some(status);
        plan.of(&cron.metadata)
            .push(Action::CronJobStatus(Box::new(changed)));
    }
    clear_history(spec, &own, plan.of(&cron.metadata));
    if spec.suspend == Some(true) {
        return;
    }
    let Some(schedule) = Schedule::parse(&spec.schedule, spec.time_zone.as_deref()) else {
        tracing::warn!(
            namespace = cron.namespace(),
            name = cron.name_any(),
            schedule = spec.schedule,
            "the schedule of a CronJob is not simulated"
        );
        return;
    };
    let created = cron.metadata.creation_timestamp.as_ref();
    let since = last.or_else(|| created.map(|time| time.0)).unwrap_or(now);
    let since = match spec.starting_deadline_seconds.map(u64::try_from) {
        Some(Ok(seconds)) => {
            let oldest = now.saturating_sub(Duration::from_secs(seconds));
            since.max(oldest.unwrap_or(since))
        }
        _ => since,
    };
    if let Some(next) = schedule.next(now) {
        let uid = cron.metadata.uid.clone().unwrap_or_default();
        plan.replan_after(uid, next, Duration::ZERO);
    }
    let Some(time) = schedule.latest(since, now) else {
        return;
    };
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => return,
        Some("Replace") => {
            let replaced = active.iter().map(|job| Action::DeleteJob(key(*job)));
            plan.of(&cron.metadata).extend(replaced);
        }
        _ => {}
    }
    let job = job(cron, spec, time);
    // A Job of another owner with this name remains unchanged.
    if cache.jobs.get(&key(&job)).is_none() {
        plan.of(&cron.metadata)
            .push(Action::CreateJob(Box::new(job)));
    }
}

fn is_of(job: &Job, cron: &CronJob) -> bool {
    let owner = owned_pods::controller_of(&job.metadata);
    job.metadata.deletion_timestamp.is_none()
        && owner.is_some_and(|owner| Some(&owner.uid) == cron.metadata.uid.as_ref())
}

/// Returns the status of a CronJob, computed from its Jobs.
fn status(own: &[&Job], active: &[&Job], before: CronJobStatus) -> CronJobStatus {
    let scheduled = own.iter().filter_map(|job| scheduled(job)).max();
    let done = own
        .iter()
        .filter(|job| jobs::reported_state(job) == JobState::Complete)
        .filter_map(|job| job.status.as_ref()?.completion_time.clone());
    let references = active.iter().map(|job| ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    });
    let known = before.active.unwrap_or_default();
    let references: Vec<ObjectReference> = references
        .map(|reference| {
            // The reference keeps the resource version that the Job had at its creation.
            let same = known.iter().find(|known| known.uid == reference.uid);
            same.cloned().unwrap_or(reference)
        })
        .collect();
    CronJobStatus {
        active: (!references.is_empty()).then_some(references),
        last_schedule_time: before.last_schedule_time.max(scheduled.map(Time)),
        last_successful_time: before.last_successful_time.max(done.max()),
    }
}

fn scheduled(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED)?.parse().ok()
}

/// Deletes the oldest finished Jobs that exceed the history limits.
fn clear_history(spec: &CronJobSpec, own: &[&Job], actions: &mut Vec<Action>) {
    let limits = [
        (
            Some(JobState::Complete),
            spec.successful_jobs_history_limit,
            3,
        ),
        (None, spec.failed_jobs_history_limit, 1),
    ];
    for (state, limit, otherwise) in limits {
        let mut finished: Vec<&Job> = own
            .iter()
            .copied()
            .filter(|job| match jobs::reported_state(job) {
                JobState::Failed(_) => state.is_none(),
                reported => state == Some(reported),
            })
            .collect();
        finished.sort_by_key(|job| (scheduled(job), job.metadata.name.clone()));
        let kept = usize::try_from(limit.unwrap_or(otherwise)).unwrap_or_default();
        let surplus = finished.len().saturating_sub(kept);
        let gone = finished.iter().take(surplus);
        actions.extend(gone.map(|job| Action::DeleteJob(key(*job))));
    }
}

/// Returns the Job for a scheduled time. The name contains the minute, so each time has at most one Job.
fn job(cron: &CronJob, spec: &CronJobSpec, time: Timestamp) -> Job {
    let template = &spec.job_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), time.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron.name_any(), time.as_second() / 60)),
            namespace: cron.metadata.namespace.clone(),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: owned_pods::owner_references(cron),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
