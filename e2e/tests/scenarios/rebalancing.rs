//! WorkloadRebalancers: workloads are placed afresh on request.

use std::time::Duration;

use berth_api::workload_rebalancer::WorkloadRebalancerStatus;
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding, WorkloadRebalancer};
use berth_e2e::eventually::never;
use berth_e2e::{Plane, eventually};
use serde_json::{Value, json};

use crate::manifests::{cluster_policy, cluster_role, deployment, policy};
use crate::watching::{after_changes_of_members, placed, placed_in};

/// The first site that there is.
fn sites() -> Value {
    json!({ "clusterAffinities": [
        { "affinityName": "first", "labelSelector": { "matchLabels": { "site": "one" } } },
        { "affinityName": "second", "labelSelector": { "matchLabels": { "site": "two" } } },
    ] })
}

async fn label_site(plane: &Plane, member: &str, site: &str) {
    let labels = json!({ "metadata": { "labels": { "site": site } } });
    plane.edit(&plane.all::<Cluster>(), member, labels).await;
    after_changes_of_members(plane).await;
}

fn reference(plane: &Plane, name: &str) -> Value {
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

/// Times in the API have seconds, and only what is later than the last schedule counts.
async fn a_second_later(binding: &ResourceBinding) {
    let last = binding.status.as_ref().unwrap().last_scheduled_time.clone();
    let last = last.unwrap().0.as_second();
    eventually("the next second", async || {
        let now = jiff::Timestamp::now().as_second();
        if now > last { Ok(()) } else { Err("not yet") }
    })
    .await;
}

/// Waits until a rebalancer is finished with what it says now, and returns how that went.
async fn finished(plane: &Plane, name: &str) -> WorkloadRebalancerStatus {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_listed_is_placed_afresh_and_the_rest_stays() {
    let plane = Plane::start().await;
    label_site(&plane, "member1", "one").await;
    label_site(&plane, "member2", "two").await;
    let (moved, other) = (deployment("moved", 2), deployment("other", 2));
    plane
        .create_all([policy("p", &[&moved, &other], sites()), moved, other])
        .await;
    for name in ["moved-deployment", "other-deployment"] {
        placed(&plane, name, &[("member1", 2)]).await;
    }
    label_site(&plane, "member1", "none").await;
    let mut last = None;
    for name in ["moved-deployment", "other-deployment"] {
        last = Some(placed(&plane, name, &[("member2", 2)]).await);
    }
    label_site(&plane, "member1", "one").await;
    a_second_later(&last.unwrap()).await;

    let name = plane.unique("r");
    let listed = [&reference(&plane, "moved"), &reference(&plane, "nobody")];
    let asking = rebalancer(&name, &listed, None);
    plane.create_all([asking]).await;
    placed(&plane, "moved-deployment", &[("member1", 2)]).await;
    let status = finished(&plane, &name).await;
    assert_eq!(
        results(&status),
        [
            ("moved", "Successful", ""),
            ("nobody", "Failed", "ReferencedBindingNotFound")
        ]
    );
    placed(&plane, "other-deployment", &[("member2", 2)]).await;
    let bindings = plane.api::<ResourceBinding>();
    let triggered = bindings.get("moved-deployment").await.unwrap();
    let rebalancers = plane.all::<WorkloadRebalancer>();
    let made = rebalancers.get(&name).await.unwrap();
    assert_eq!(
        triggered.spec.reschedule_triggered_at,
        made.metadata.creation_timestamp
    );

    // Another one is listed: what was successful is remembered, and not asked again.
    let edit = json!({ "spec": { "workloads": [reference(&plane, "other")] } });
    plane.edit(&rebalancers, &name, edit).await;
    placed(&plane, "other-deployment", &[("member1", 2)]).await;
    let status = finished(&plane, &name).await;
    assert_eq!(
        results(&status),
        [("moved", "Successful", ""), ("other", "Successful", "")]
    );
    never("it is deleted", Duration::from_millis(500), async || {
        let there = rebalancers.get_opt(&name).await.unwrap().is_some();
        if there { Ok(()) } else { Err("it is gone") }
    })
    .await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_with_a_time_to_live_goes_when_it_has_finished() {
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
    let everywhere = [("member1", 0), ("member2", 0), ("member3", 0)];
    placed_in(&plane, &bindings, &binding, &everywhere).await;
    let name = plane.unique("r");
    let listed = json!({ "apiVersion": role["apiVersion"], "kind": "ClusterRole",
        "name": role["metadata"]["name"] });
    plane
        .create_all([rebalancer(&name, &[&listed], Some(0))])
        .await;
    eventually("the rebalancer to go", async || {
        let rebalancers = plane.all::<WorkloadRebalancer>();
        match rebalancers.get_opt(&name).await.unwrap() {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}")),
        }
    })
    .await;
    let asked = bindings.get(&binding).await.unwrap();
    assert!(asked.spec.reschedule_triggered_at.is_some());
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_lists_nothing_is_refused() {
    let plane = Plane::start().await;
    let refused = plane.kubectl_apply(&rebalancer(&plane.unique("r"), &[], None));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("spec.workloads"),
        "{said}"
    );
    plane.stop().await;
}
