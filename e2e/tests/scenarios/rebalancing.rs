//! Scenarios with WorkloadRebalancers, which reschedule the listed workloads.

use berth_api::workload_rebalancer::WorkloadRebalancerStatus;
use berth_api::{ClusterResourceBinding, ResourceBinding, WorkloadRebalancer};
use berth_e2e::{Plane, eventually};
use serde_json::{Value, json};

use crate::assertions::{
    label_site, wait_for_next_second_after, wait_until_placed, wait_until_placed_in,
};
use crate::manifests::{cluster_policy, cluster_role, deployment, policy, two_sites};

fn workload_reference(plane: &Plane, name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": plane.namespace, "name": name })
}

fn rebalancer(name: &str, workloads: &[&Value], ttl: Option<i32>) -> Value {
    let mut spec = json!({ "workloads": workloads });
    if let Some(ttl) = ttl {
        spec["ttlSecondsAfterFinished"] = json!(ttl);
    }
    json!({ "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": { "name": name }, "spec": spec })
}

/// Waits until a rebalancer has finished its current generation, and returns its status.
async fn wait_until_finished(plane: &Plane, name: &str) -> WorkloadRebalancerStatus {
    let rebalancers = plane.all::<WorkloadRebalancer>();
    eventually(&format!("{name} to finish"), async || {
        let found = rebalancers.get(name).await.unwrap();
        let status = found.status.unwrap_or_default();
        if status.observed_generation == found.metadata.generation && status.finish_time.is_some() {
            Ok(status)
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await
}

/// Returns the name, result and reason of each observed workload.
fn results(status: &WorkloadRebalancerStatus) -> Vec<(&str, &str, &str)> {
    let items = status.observed_workloads.iter();
    items
        .map(|item| {
            let result = item.result.as_ref().map_or("", |result| result.as_str());
            let reason = item.reason.as_ref().map_or("", |reason| reason.as_str());
            (item.workload.name.as_str(), result, reason)
        })
        .collect()
}

/// A listed workload returns to its first affinity group. A listed workload without a binding is reported as failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listed_workloads_are_rescheduled_and_others_stay() {
    let plane = Plane::start().await;
    label_site(&plane, "member1", "one").await;
    label_site(&plane, "member2", "two").await;
    let (moved, other) = (deployment("moved", 2), deployment("other", 2));
    plane
        .create_all([policy("p", &[&moved, &other], two_sites()), moved, other])
        .await;
    for name in ["moved-deployment", "other-deployment"] {
        wait_until_placed(&plane, name, &[("member1", 2)]).await;
    }
    label_site(&plane, "member1", "none").await;
    let mut last = None;
    for name in ["moved-deployment", "other-deployment"] {
        last = Some(wait_until_placed(&plane, name, &[("member2", 2)]).await);
    }
    label_site(&plane, "member1", "one").await;
    wait_for_next_second_after(&last.unwrap()).await;

    let name = plane.unique("r");
    let listed = [
        &workload_reference(&plane, "moved"),
        &workload_reference(&plane, "nonexistent"),
    ];
    let created = rebalancer(&name, &listed, None);
    plane.create_all([created]).await;
    wait_until_placed(&plane, "moved-deployment", &[("member1", 2)]).await;
    let status = wait_until_finished(&plane, &name).await;
    assert_eq!(
        results(&status),
        [
            ("moved", "Successful", ""),
            ("nonexistent", "Failed", "ReferencedBindingNotFound")
        ]
    );
    wait_until_placed(&plane, "other-deployment", &[("member2", 2)]).await;
    let bindings = plane.api::<ResourceBinding>();
    let triggered = bindings.get("moved-deployment").await.unwrap();
    let rebalancers = plane.all::<WorkloadRebalancer>();
    let stored = rebalancers.get(&name).await.unwrap();
    assert_eq!(
        triggered.spec.reschedule_triggered_at,
        stored.metadata.creation_timestamp
    );

    // The edit lists another workload. The earlier success stays in the status and triggers no second rescheduling.
    let edit = json!({ "spec": { "workloads": [workload_reference(&plane, "other")] } });
    plane.edit(&rebalancers, &name, edit).await;
    wait_until_placed(&plane, "other-deployment", &[("member1", 2)]).await;
    let status = wait_until_finished(&plane, &name).await;
    assert_eq!(
        results(&status),
        [("moved", "Successful", ""), ("other", "Successful", "")]
    );
    // A later rebalancer with a TTL is deleted. The rebalancer without a TTL still exists afterwards.
    let marker = plane.unique("marker");
    plane
        .create_all([rebalancer(
            &marker,
            &[&workload_reference(&plane, "other")],
            Some(0),
        )])
        .await;
    plane.until_gone(&rebalancers, &marker).await;
    assert!(rebalancers.get_opt(&name).await.unwrap().is_some());
    plane.stop().await;
}

/// The rebalancer lists a ClusterRole. The binding of this ClusterRole is rescheduled before the rebalancer is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_rebalancer_with_a_ttl_is_deleted() {
    let plane = Plane::start().await;
    let role = cluster_role(&plane.unique("reader"));
    let binding = format!("{}-clusterrole", plane.unique("reader"));
    plane
        .create_all([
            cluster_policy(&plane.unique("p"), &[&role], json!({})),
            role.clone(),
        ])
        .await;
    let bindings = plane.all::<ClusterResourceBinding>();
    let all_members = [("member1", 0), ("member2", 0), ("member3", 0)];
    wait_until_placed_in(&plane, &bindings, &binding, &all_members).await;
    let name = plane.unique("r");
    let listed = json!({ "apiVersion": role["apiVersion"], "kind": "ClusterRole",
        "name": role["metadata"]["name"] });
    plane
        .create_all([rebalancer(&name, &[&listed], Some(0))])
        .await;
    eventually("the rebalancer to be deleted", async || {
        let rebalancers = plane.all::<WorkloadRebalancer>();
        match rebalancers.get_opt(&name).await.unwrap() {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}")),
        }
    })
    .await;
    let triggered = bindings.get(&binding).await.unwrap();
    assert!(triggered.spec.reschedule_triggered_at.is_some());
    plane.stop().await;
}

/// A WorkloadRebalancer must list at least one workload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalancer_without_workloads_is_refused() {
    let plane = Plane::start().await;
    let refused = plane.kubectl_apply(&rebalancer(&plane.unique("r"), &[], None));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && stderr.contains("spec.workloads"),
        "{stderr}"
    );
    plane.stop().await;
}
