//! Tests of the condition `Healthy` of bindings, and of what counts of the reports of clusters that are not ready.

use berth_api::binding::ResourceHealth;
use berth_api::{ResourceBinding, condition};
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Member};
use crate::manifests::{config_map, deployment, divided, policy};

const BINDING: &str = "web-deployment";

/// Reports the replicas of a Deployment in a member.
async fn report(member: &Member, web: &Value, replicas: i64, ready: i64) {
    let object = member.wait_for(web, "its replicas", |web| {
        web["spec"]["replicas"] == replicas
    });
    let generation = object.await["metadata"]["generation"].clone();
    let status = json!({ "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": ready,
        "availableReplicas": ready, "unavailableReplicas": replicas - ready,
        "observedGeneration": generation });
    member.report_status(web, status).await;
}

/// Waits until the condition `Healthy` of a binding has this status and reason. Returns the binding and the message.
async fn wait_for_health(
    fleet: &Fleet,
    name: &str,
    status: &str,
    reason: &str,
) -> (ResourceBinding, String) {
    let healthy = |binding: &ResourceBinding| {
        let conditions = binding.status.as_ref().map(|status| &status.conditions[..]);
        let found = condition::find(conditions.unwrap_or_default(), "Healthy")?;
        (found.status == status && found.reason == reason).then(|| found.message.clone())
    };
    let what = format!("Healthy {status} because of {reason}");
    let bindings = fleet.bindings();
    let binding = wait_for(&bindings, name, &what, |binding| healthy(binding).is_some()).await;
    let message = healthy(&binding).unwrap();
    (binding, message)
}

/// Waits until the status of a template with five replicas has these counts.
async fn wait_for_counts(fleet: &Fleet, web: &Value, ready: i64, unavailable: i64) {
    let what = format!("{ready} ready replicas");
    let template = fleet.wait_for(web, &what, |web| {
        let count = |field: &str| web["status"][field].as_i64().unwrap_or(0);
        count("replicas") == 5
            && count("readyReplicas") == ready
            && count("availableReplicas") == ready
            && count("unavailableReplicas") == unavailable
    });
    template.await;
}

/// A workload that stays unhealthy is looked at in the member, and the binding says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_problem_of_the_pods_reaches_the_binding_until_they_are_ready() {
    let fleet = Fleet::start(1).await;
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let member = &fleet.members[0];
    report(member, &web, 2, 0).await;
    let (_, message) = wait_for_health(&fleet, BINDING, "False", "NotReady").await;
    assert_eq!(message, "0 of 2 replicas are ready in m1");

    for name in ["web-1", "web-2", "other"] {
        let labels = json!({ "app": name.split('-').next() });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] } });
        member.apply(pod.clone()).await;
        let crash = json!({ "phase": "Running", "containerStatuses": [{
            "name": "main", "image": "nginx:1", "imageID": "", "ready": false, "restartCount": 3,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error" } } }] });
        member.report_status(&pod, crash).await;
    }
    let (_, message) = wait_for_health(&fleet, BINDING, "False", "CrashLoopBackOff").await;
    let expected = "2 of 2 pods crash in m1: exit code 1; fix: read the logs in m1: kubectl logs";
    assert!(message.starts_with(expected), "{message}");

    report(member, &web, 2, 2).await;
    let (_, message) = wait_for_health(&fleet, BINDING, "True", "Healthy").await;
    assert_eq!(message, "It works in 1 cluster");
    let works = fleet
        .works("m1")
        .list(&ListParams::default())
        .await
        .unwrap();
    let mut conditions = works
        .items
        .iter()
        .flat_map(|work| &work.status)
        .flat_map(|of| &of.conditions);
    assert!(conditions.all(|of| of.type_ != "Healthy"), "{works:?}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_in_a_cluster_that_is_not_ready_do_not_count() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 5);
    fleet.apply(web.clone()).await;
    fleet.apply(divided(&web, &[("m1", 2), ("m2", 3)])).await;
    report(&fleet.members[0], &web, 2, 2).await;
    report(&fleet.members[1], &web, 3, 3).await;
    wait_for_health(&fleet, BINDING, "True", "Healthy").await;
    wait_for_counts(&fleet, &web, 5, 0).await;

    fleet.report_ready("m2", false).await;
    let (binding, message) = wait_for_health(&fleet, BINDING, "Unknown", "StaleStatus").await;
    assert_eq!(
        message,
        "m2 is not ready: nothing is known about its 3 replicas; fix: look at `kubectl describe cluster m2`; evictions move the workload if its policy allows"
    );
    let items = binding.status.unwrap().aggregated_status;
    let health: Vec<_> = items.iter().map(|item| item.health.clone()).collect();
    assert_eq!(
        health,
        [Some(ResourceHealth::Healthy), Some(ResourceHealth::Unknown)]
    );
    assert_eq!(items[1].status.as_ref().unwrap()["readyReplicas"], 3);
    wait_for_counts(&fleet, &web, 2, 3).await;
    // What is known to be wrong counts more.
    report(&fleet.members[0], &web, 2, 1).await;
    wait_for_health(&fleet, BINDING, "False", "NotReady").await;
    report(&fleet.members[0], &web, 2, 2).await;

    fleet.report_ready("m2", true).await;
    wait_for_health(&fleet, BINDING, "True", "Healthy").await;
    wait_for_counts(&fleet, &web, 5, 0).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_without_clusters_says_so() {
    let fleet = Fleet::start(1).await;
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    report(&fleet.members[0], &web, 2, 2).await;
    wait_for_health(&fleet, BINDING, "True", "Healthy").await;
    // As an eviction does.
    let task = json!({ "fromCluster": "m1", "purgeMode": "Directly", "reason": "Test", "producer": "test" });
    let evicted = json!({ "spec": { "clusters": null, "gracefulEvictionTasks": [task] } });
    let bindings = fleet.bindings();
    let parameters = PatchParams::default();
    bindings
        .patch(BINDING, &parameters, &Patch::Merge(evicted))
        .await
        .unwrap();
    wait_for_health(&fleet, BINDING, "False", "NoClusters").await;
    let binding = fleet.wait_for_fully_applied(BINDING, "False").await;
    let conditions = binding.status.unwrap().conditions;
    let applied = condition::find(&conditions, "FullyApplied").unwrap();
    assert_eq!(applied.reason, "NoClusters");
    fleet.stop().await;
}

/// The scheduler of Karmada writes all conditions, and may not have seen the newest ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_another_client_replaces_is_written_again() {
    let fleet = Fleet::start(1).await;
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    fleet.apply(policy(&settings, &["m1"])).await;
    let name = "settings-configmap";
    let (binding, _) = wait_for_health(&fleet, name, "True", "Healthy").await;
    let mut conditions = binding.status.unwrap().conditions;
    let healthy = conditions
        .iter_mut()
        .find(|of| of.type_ == "Healthy")
        .unwrap();
    "Old".clone_into(&mut healthy.reason);
    let without: Vec<_> = conditions
        .iter()
        .filter(|of| of.type_ != "Healthy")
        .collect();
    for replaced in [json!(without), json!(conditions)] {
        let patch = Patch::Merge(json!({ "status": { "conditions": replaced } }));
        let bindings = fleet.bindings();
        let parameters = PatchParams::default();
        bindings
            .patch_status(name, &parameters, &patch)
            .await
            .unwrap();
        wait_for_health(&fleet, name, "True", "Healthy").await;
    }
    fleet.stop().await;
}
