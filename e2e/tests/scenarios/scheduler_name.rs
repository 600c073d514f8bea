//! Which scheduler places a workload: `spec.schedulerName` of its policy.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use berth_test_requirements::needs;
use kube::api::PatchParams;
use serde_json::json;

use crate::manifests::{but, deployment, on, policy};
use crate::watching::{after_all_else, component, events_about, placed, scheduled, told};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_name_the_default_scheduler_places() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    plane
        .create_all([policy("p", &[&nginx], on(&["member1", "member2"])), nginx])
        .await;

    let binding = placed(
        &plane,
        "nginx-deployment",
        &[("member1", 2), ("member2", 2)],
    )
    .await;
    assert_eq!(binding.spec.scheduler(), "default-scheduler");
    let result = "Binding has been scheduled successfully. Result: {member";
    for (kind, name) in [
        ("ResourceBinding", "nginx-deployment"),
        ("Deployment", "nginx"),
    ] {
        let event = told(&plane, kind, name, "ScheduleBindingSucceed", result).await;
        assert_eq!(component(&event), "default-scheduler");
        assert_eq!(event.type_.as_deref(), Some("Normal"));
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_scheduler_answers_to_its_name() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    let policy = but(
        policy("p", &[&nginx], on(&["member2"])),
        json!({ "spec": { "schedulerName": "default-scheduler" } }),
    );
    plane.create_all([nginx, policy]).await;

    let binding = placed(&plane, "nginx-deployment", &[("member2", 2)]).await;
    assert_eq!(
        binding.spec.scheduler_name.as_deref(),
        Some("default-scheduler")
    );
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_waits_for_the_scheduler_that_it_names() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    let policy = but(
        policy("p", &[&nginx], on(&["member1"])),
        json!({ "spec": { "schedulerName": "my-scheduler" } }),
    );
    plane.create_all([nginx, policy]).await;
    let bindings = plane.api::<ResourceBinding>();
    plane
        .until(&bindings, "nginx-deployment", "made", |binding| {
            binding.spec.scheduler_name.as_deref() == Some("my-scheduler")
        })
        .await;

    // The default scheduler places others meanwhile, and leaves this one alone.
    after_all_else(&plane).await;
    let binding = bindings.get("nginx-deployment").await.unwrap();
    assert!(binding.spec.clusters.is_empty() && scheduled(&binding).is_none());

    plane.run_scheduler("my-scheduler");
    placed(&plane, "nginx-deployment", &[("member1", 2)]).await;
    told(
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
            component(&event) == "my-scheduler",
            scheduling,
            "{:?}",
            event.message
        );
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_share_the_work_by_name() {
    let plane = Plane::start().await;
    plane.run_scheduler("my-scheduler");
    let (mine, theirs) = (deployment("mine", 1), deployment("theirs", 1));
    plane
        .create_all([
            policy("theirs", &[&theirs], on(&["member1"])),
            but(
                policy("mine", &[&mine], on(&["member2"])),
                json!({ "spec": { "schedulerName": "my-scheduler" } }),
            ),
            mine,
            theirs,
        ])
        .await;
    placed(&plane, "mine-deployment", &[("member2", 1)]).await;
    placed(&plane, "theirs-deployment", &[("member1", 1)]).await;
    for (name, scheduler) in [("mine", "my-scheduler"), ("theirs", "default-scheduler")] {
        let event = told(&plane, "Deployment", name, "ScheduleBindingSucceed", "").await;
        assert_eq!(component(&event), scheduler);
    }
    plane.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_cannot_be_changed() {
    let plane = Plane::start().await;
    plane
        .create_all([policy("p", &[&deployment("nginx", 1)], on(&["member1"]))])
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
