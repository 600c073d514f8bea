//! Tests of pods that the API server refuses.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use serde_json::json;

use super::{Cluster, default_key, deployment, edit_deployment};

const REFUSED: &str = "pods \"web-x\" is forbidden: exceeded quota: few";

/// Returns a condition of the Deployment `web`.
fn condition(cluster: &Cluster, kind: &str) -> Option<DeploymentCondition> {
    let deployment = cluster.cache.deployments.get(&default_key("web")).unwrap();
    let status = deployment.status.clone().unwrap();
    let mut conditions = status.conditions.into_iter().flatten();
    conditions.find(|condition| condition.type_ == kind)
}

#[test]
fn refused_pods_are_reported_and_retried_with_back_off() {
    let mut cluster = Cluster::with_nodes(1, "8");
    cluster.refuses_pods = Some(REFUSED);
    deployment(&mut cluster, "web", 3, "1");
    let mut next = cluster.plan_until_idle().unwrap();
    while cluster.refused.len() < 14 {
        cluster.now = next;
        next = cluster.plan_until_idle().unwrap();
    }
    let pauses: Vec<i64> = cluster
        .refused
        .windows(2)
        .map(|pair| {
            pair[1]
                .duration_since(pair[0])
                .as_millis()
                .try_into()
                .unwrap()
        })
        .filter(|pause| *pause > 0)
        .collect();
    assert!(
        pauses.starts_with(&[
            100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000
        ]),
        "{pauses:?}"
    );
    let set = cluster.cache.replica_sets.iter().next().unwrap();
    let of_set = &set.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(of_set.type_, "ReplicaFailure");
    assert_eq!(of_set.reason.as_deref(), Some("FailedCreate"));
    let failure = condition(&cluster, "ReplicaFailure").unwrap();
    assert_eq!(failure.status, "True");
    assert_eq!(failure.message.as_deref(), Some(REFUSED));

    cluster.refuses_pods = None;
    cluster.now = next;
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("web").len(), 3);
    assert_eq!(condition(&cluster, "ReplicaFailure"), None);
    let set = cluster.cache.replica_sets.iter().next().unwrap();
    assert_eq!(set.status.as_ref().unwrap().conditions, None);
}

#[test]
fn a_refusal_ends_when_the_pods_are_no_longer_wanted() {
    let mut cluster = Cluster::with_nodes(1, "8");
    cluster.refuses_pods = Some(REFUSED);
    deployment(&mut cluster, "web", 1, "1");
    cluster.plan_until_idle();
    assert!(condition(&cluster, "ReplicaFailure").is_some());
    edit_deployment(&mut cluster, "web", |d| {
        d["spec"]["replicas"] = json!(0);
        d["metadata"]["generation"] = json!(2);
    });
    cluster.plan_until_idle();
    assert_eq!(condition(&cluster, "ReplicaFailure"), None);
}
