//! Deletion of finished jobs: a job is deleted when its `ttlSecondsAfterFinished` is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::resource_of;
use crate::shared::Shared;
use crate::shared::work_queue::Work;
use crate::store::Key;
use crate::table_names::JOBS;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::{Call, delete};

/// Deletes a finished job if its time is over. Otherwise queues the job again for that time.
pub(super) async fn expire(shared: &Arc<Shared>, key: &Key) {
    let (Some(resource), Some(stored)) = (resource_of(shared, JOBS), shared.store.get(JOBS, key))
    else {
        return;
    };
    let Some(end) = expiry(&stored.value()).filter(|_| !stored.deleting) else {
        return;
    };
    let work = Work::ExpireJob(key.clone());
    if let Ok(left) = Duration::try_from(end.duration_since(Timestamp::now()))
        && !left.is_zero()
    {
        // Each change of the job queues it again, so that several changes must not start several waits.
        if shared.work.delay(work.clone(), end) {
            let shared = shared.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = shared.stopping.cancelled() => {}
                    () = tokio::time::sleep(left) => shared.work.end_delay(work, end),
                }
            });
        }
        return;
    }
    let mut options = DeleteOptions::foreground();
    options.uid = Some(stored.uid.to_string());
    let call = Call::internal(shared, &resource, &key.namespace, &key.name);
    if let Err(error) = delete::remove(&call, key, &options).await {
        shared.retry_later(work);
        tracing::debug!(namespace = %key.namespace, job = %key.name, %error, "cannot delete a finished job");
    }
}

/// Returns the time at which a job expires. Returns `None` for an unfinished job and for a job without a TTL.
fn expiry(job: &Value) -> Option<Timestamp> {
    let seconds = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let finished = job["status"]["conditions"].as_array()?.iter().find(|c| {
        matches!(c["type"].as_str(), Some("Complete" | "Failed")) && c["status"] == "True"
    })?;
    let since: Timestamp = finished["lastTransitionTime"].as_str()?.parse().ok()?;
    since.checked_add(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_finished_jobs_with_a_ttl_expire() {
        let job = |ttl: Value, kind: &str, status: &str| {
            json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [
                {"type": "Suspended", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
                {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
        };
        for (job, expected) in [
            (
                job(json!(20), "Failed", "True"),
                Some("2026-01-01T00:00:20Z"),
            ),
            (
                job(json!(0), "Complete", "True"),
                Some("2026-01-01T00:00:00Z"),
            ),
            (job(Value::Null, "Complete", "True"), None),
            (job(json!(20), "Complete", "False"), None),
            (job(json!(20), "FailureTarget", "True"), None),
            (json!({"spec": {"ttlSecondsAfterFinished": 20}}), None),
        ] {
            let expected = expected.map(|time| time.parse().unwrap());
            assert_eq!(expiry(&job), expected, "{job}");
        }
    }
}
