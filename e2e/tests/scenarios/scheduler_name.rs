//! Scenarios with several schedulers. A policy chooses the scheduler with `spec.schedulerName`.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use berth_test_requirements::needs;
use kube::api::PatchParams;
use serde_json::json;

use crate::assertions::{
    event_source, events_about, scheduled, wait_for_event, wait_for_pending_work, wait_until_placed,
};
use crate::manifests::{deployment, merged, on_clusters, policy};

/// The events about the binding and the template have the source `default-scheduler`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_without_a_scheduler_name_uses_the_default_scheduler() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([
            policy("p", &[&nginx], on_clusters(&["member1", "member2"])),
            nginx,
        ])
        .await;

    let binding = wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 2), ("member2", 2)],
    )
    .await;
    assert_eq!(binding.spec.scheduler(), "default-scheduler");
    let result = "Binding has been scheduled successfully. Result: {member";
    let reason = "ScheduleBindingSucceed";
    let event = wait_for_event(&plane, "Deployment", "nginx", reason, result).await;
    assert_eq!(event_source(&event), "default-scheduler");
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_can_name_the_default_scheduler() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    let policy = merged(
        policy("p", &[&nginx], on_clusters(&["member2"])),
        json!({ "spec": { "schedulerName": "default-scheduler" } }),
    );
    plane.create_all([nginx, policy]).await;

    let binding = wait_until_placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    assert_eq!(
        binding.spec.scheduler_name.as_deref(),
        Some("default-scheduler")
    );
    plane.stop().await;
}

/// The scheduler is started after the binding is created. It is the source of the event about the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_waits_for_the_scheduler_that_it_names() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    let policy = merged(
        policy("p", &[&nginx], on_clusters(&["member1"])),
        json!({ "spec": { "schedulerName": "my-scheduler" } }),
    );
    plane.create_all([nginx, policy]).await;
    let bindings = plane.api::<ResourceBinding>();
    plane
        .until(&bindings, "nginx-deployment", "created", |binding| {
            binding.spec.scheduler_name.as_deref() == Some("my-scheduler")
        })
        .await;

    // The default scheduler places other bindings and ignores this binding.
    wait_for_pending_work(&plane).await;
    let binding = bindings.get("nginx-deployment").await.unwrap();
    assert!(binding.spec.clusters.is_empty() && scheduled(&binding).is_none());

    plane.run_scheduler("my-scheduler");
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    wait_for_event(
        &plane,
        "Deployment",
        "nginx",
        "ScheduleBindingSucceed",
        "member1:2",
    )
    .await;
    for event in events_about(&plane, "ResourceBinding", "nginx-deployment").await {
        let scheduling = event.reason.as_deref() == Some("ScheduleBindingSucceed");
        assert_eq!(
            event_source(&event) == "my-scheduler",
            scheduling,
            "{:?}",
            event.message
        );
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_schedulers_places_the_bindings_with_its_name() {
    let plane = Plane::start().await;
    plane.run_scheduler("my-scheduler");
    let (mine, theirs) = (deployment("mine", 1), deployment("theirs", 1));
    plane
        .create_all([
            policy("theirs", &[&theirs], on_clusters(&["member1"])),
            merged(
                policy("mine", &[&mine], on_clusters(&["member2"])),
                json!({ "spec": { "schedulerName": "my-scheduler" } }),
            ),
            mine,
            theirs,
        ])
        .await;
    wait_until_placed(&plane, "mine-deployment", &[("member2", 1)]).await;
    wait_until_placed(&plane, "theirs-deployment", &[("member1", 1)]).await;
    for (name, scheduler) in [("mine", "my-scheduler"), ("theirs", "default-scheduler")] {
        let event = wait_for_event(&plane, "Deployment", name, "ScheduleBindingSucceed", "").await;
        assert_eq!(event_source(&event), scheduler);
    }
    plane.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_name_cannot_be_changed() {
    let plane = Plane::start().await;
    plane
        .create_all([policy(
            "p",
            &[&deployment("nginx", 1)],
            on_clusters(&["member1"]),
        )])
        .await;
    let change = kube::api::Patch::Merge(json!({ "spec": { "schedulerName": "my-scheduler" } }));
    let refusal = plane
        .api::<PropagationPolicy>()
        .patch("p", &PatchParams::default(), &change)
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("spec.schedulerName"), "{refusal}");
    plane.stop().await;
}
