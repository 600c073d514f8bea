//! Tests of Jobs: a divided Job loses a cluster, and a failed Job expires.

use berth_e2e::Objects as _;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{divided, policy};

const START: &str = "2026-01-01T00:00:00Z";

fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    job["spec"]["template"] = json!({ "spec": { "restartPolicy": "Never",
        "containers": [{ "name": "main", "image": "busybox" }] } });
    job
}

fn conditions(kinds: &[&str]) -> Value {
    let now = jiff::Timestamp::now();
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap();
    let kinds = kinds.iter();
    kinds
        .map(|kind| json!({ "type": kind, "status": "True", "lastTransitionTime": now }))
        .collect()
}

/// The remaining Job keeps its completions, which are immutable, gets the parallelism, and completes. The counters of
/// the template do not decrease, and the message of the condition names the lost completions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_divided_job_that_loses_a_cluster_completes_in_the_other() {
    let fleet = Fleet::start(2).await;
    let job = job("parts", json!({ "parallelism": 4, "completions": 40 }));
    fleet.apply(job.clone()).await;
    fleet.apply(divided(&job, &[("m1", 1), ("m2", 1)])).await;
    for (member, succeeded) in fleet.members.iter().zip([5, 8]) {
        member.wait_until_exists(&job).await;
        let status = json!({ "startTime": START, "active": 2, "succeeded": succeeded });
        member.report_status(&job, status).await;
    }
    fleet
        .wait_for(&job, "both reports", |job| job["status"]["succeeded"] == 13)
        .await;
    fleet.apply(divided(&job, &[("m2", 1)])).await;
    fleet.members[0].wait_until_gone(&job).await;
    let m2 = &fleet.members[1];
    let kept = m2
        .wait_for(&job, "the parallelism", |job| {
            job["spec"]["parallelism"] == 4
        })
        .await;
    assert_eq!(kept["spec"]["completions"], 20);
    let status = json!({ "startTime": START, "active": 4, "succeeded": 9 });
    m2.report_status(&job, status).await;
    let running = fleet
        .wait_for(&job, "the report of m2", |job| job["status"]["active"] == 4)
        .await;
    assert_eq!(running["status"]["succeeded"], 13);
    let status = json!({ "startTime": START, "active": null, "succeeded": 20,
        "completionTime": "2026-01-01T00:01:00Z",
        "conditions": conditions(&["SuccessCriteriaMet", "Complete"]) });
    m2.report_status(&job, status).await;
    let complete = fleet
        .wait_for(&job, "completion", |job| {
            job["status"]["conditions"][0]["type"] == "Complete"
        })
        .await;
    assert_eq!(
        complete["status"]["conditions"][0]["message"],
        "Job completed with 20 of 40 completions"
    );
    fleet.wait_for_fully_applied("parts-job", "True").await;
    fleet.stop().await;
}

/// A Job that failed in one member is failing, and failed when it has ended in the other member. Its TTL then deletes
/// it everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_job_ends_in_all_members_and_expires() {
    let fleet = Fleet::start(2).await;
    let job = job("once", json!({ "ttlSecondsAfterFinished": 1 }));
    fleet.apply(job.clone()).await;
    fleet.apply(policy(&job, &["m1", "m2"])).await;
    let failed = json!({ "startTime": START, "active": null, "failed": 1,
        "conditions": conditions(&["FailureTarget", "Failed"]) });
    let running = json!({ "startTime": START, "active": 1 });
    for (member, status) in fleet.members.iter().zip([failed.clone(), running]) {
        member.wait_until_exists(&job).await;
        member.report_status(&job, status).await;
    }
    let failing = fleet
        .wait_for(&job, "the failure in m1", |job| {
            job["status"]["failed"] == 1 && job["status"]["active"] == 1
        })
        .await;
    assert_eq!(
        failing["status"]["conditions"][0]["type"], "FailureTarget",
        "{failing}"
    );
    assert_eq!(failing["status"]["conditions"][1], Value::Null);
    fleet.members[1].report_status(&job, failed).await;
    for member in &fleet.members {
        member.wait_until_gone(&job).await;
    }
    fleet.stop().await;
}
