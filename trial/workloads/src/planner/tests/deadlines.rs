//! Tests of the deadlines of pods, Jobs and rollouts.

use serde_json::json;

use super::{Cluster, default_key, deployment, edit_deployment, from, template};
use crate::owned_pods;

#[test]
fn a_rollout_without_progress_times_out() {
    let mut cluster = Cluster::with_nodes(1, "8").without_images("^missing$");
    deployment(&mut cluster, "web", 2, "1");
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["progressDeadlineSeconds"] = json!(30);
    });
    cluster.advance_until_idle();
    let progressing = |cluster: &Cluster| {
        let deployment = cluster.cache.deployments.get(&default_key("web")).unwrap();
        let conditions = deployment.status.clone().unwrap().conditions.unwrap();
        let condition = conditions.into_iter().find(|c| c.type_ == "Progressing");
        let condition = condition.unwrap();
        (condition.status, condition.reason.unwrap())
    };
    let text = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    assert_eq!(
        progressing(&cluster),
        text("True", "NewReplicaSetAvailable")
    );

    let start = cluster.now;
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("missing");
    });
    cluster.plan_until_idle();
    assert_eq!(progressing(&cluster), text("True", "ReplicaSetUpdated"));
    cluster.advance_until_idle();
    assert_eq!(
        progressing(&cluster),
        text("False", "ProgressDeadlineExceeded")
    );
    let took = cluster.now.duration_since(start).as_secs();
    assert!((30..=40).contains(&took), "{took}");

    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("present");
    });
    cluster.advance_until_idle();
    assert_eq!(
        progressing(&cluster),
        text("True", "NewReplicaSetAvailable")
    );
}

#[test]
fn a_job_ends_at_its_deadline() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let mut template = template("slow", "1", "one");
    template["spec"]["restartPolicy"] = json!("Never");
    let mut metadata = cluster.metadata("slow");
    metadata["annotations"] = json!({"simulation.berth/run-time": "1h"});
    let spec = json!({"template": template, "completions": 1, "activeDeadlineSeconds": 20});
    let start = cluster.now;
    cluster
        .cache
        .jobs
        .put(from(json!({"metadata": metadata, "spec": spec})));
    cluster.advance_until_idle();
    let job = cluster.cache.jobs.get(&default_key("slow")).unwrap();
    let conditions = job.status.clone().unwrap().conditions.unwrap();
    let reasons: Vec<_> = conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.reason.as_deref().unwrap()))
        .collect();
    let reason = "DeadlineExceeded";
    assert_eq!(reasons, [("FailureTarget", reason), ("Failed", reason)]);
    assert_eq!(cluster.pods("slow"), [""; 0]);
    let end = conditions[1].last_transition_time.as_ref().unwrap().0;
    assert_eq!(end.duration_since(start).as_secs(), 20);
}

#[test]
fn a_pod_fails_at_its_deadline() {
    let mut cluster = Cluster::with_nodes(1, "8");
    let metadata = cluster.metadata("short");
    let mut spec = template("short", "1", "one")["spec"].take();
    spec["activeDeadlineSeconds"] = json!(20);
    cluster
        .cache
        .pods
        .put(from(json!({"metadata": metadata, "spec": spec})));
    cluster.advance_until_idle();
    let pod = cluster.cache.pods.get(&default_key("short")).unwrap();
    assert_eq!(owned_pods::phase(pod), "Failed");
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    let container = &status.container_statuses.as_ref().unwrap()[0];
    assert!(container.state.as_ref().unwrap().terminated.is_some());
}
