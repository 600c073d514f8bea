//! Scenarios with a restarted scheduler, and with two schedulers of one name. Each binding is placed only once.

use berth_api::ResourceBinding;
use berth_e2e::Plane;
use serde_json::{Value, json};

use crate::assertions::{event_source, events_about, wait_for_pending_work, wait_until_placed};
use crate::manifests::{deployment, equal_shares, merged, on_all_clusters, on_clusters, policy};

fn for_my_scheduler(policy: Value) -> Value {
    merged(
        policy,
        json!({ "spec": { "schedulerName": "my-scheduler" } }),
    )
}

/// The second scheduler changes no binding that the first scheduler placed, and records no event about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_scheduler_leaves_placed_workloads_alone() {
    let plane = Plane::start().await;
    let first = plane.run_scheduler("my-scheduler");
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            for_my_scheduler(policy("copied", &[&copied], on_all_clusters())),
            for_my_scheduler(policy("shared", &[&shared], equal_shares())),
            copied,
            shared,
        ])
        .await;
    let each = |replicas| ["member1", "member2", "member3"].map(|member| (member, replicas));
    let before = [
        wait_until_placed(&plane, "copied-deployment", &each(1)).await,
        wait_until_placed(&plane, "shared-deployment", &each(2)).await,
    ];
    first.cancel();

    // No scheduler runs when this binding is created. The next scheduler places it after the older bindings.
    let later = deployment("later", 1);
    plane
        .create_all([
            for_my_scheduler(policy("later", &[&later], on_clusters(&["member1"]))),
            later,
        ])
        .await;
    plane.run_scheduler("my-scheduler");
    wait_until_placed(&plane, "later-deployment", &[("member1", 1)]).await;
    wait_for_pending_work(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    for before in before {
        let name = before.metadata.name.as_deref().unwrap();
        let now = bindings.get(name).await.unwrap();
        // Status reports of the members also change the binding, so only these fields are compared.
        let scheduling_state = |binding: &ResourceBinding| {
            let status = binding.status.clone().unwrap_or_default();
            let spec = binding.spec.clone();
            (
                binding.metadata.generation,
                spec,
                status.last_scheduled_time,
            )
        };
        assert_eq!(scheduling_state(&now), scheduling_state(&before), "{name}");
        let template = name.trim_end_matches("-deployment");
        let mut events = events_about(&plane, "Deployment", template).await;
        events.retain(|event| event_source(event) == "my-scheduler");
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].count, Some(1), "{events:?}");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_with_one_name_place_each_binding_once() {
    // Two schedulers of one name are a mistake of the operator. Each write contains the resource version that it is
    // based on. Therefore the slower scheduler gets a conflict, and finds that the binding is already placed.
    let plane = Plane::start().await;
    plane.run_scheduler("default-scheduler");
    plane.run_scheduler("default-scheduler");
    for index in 0..5 {
        let template = deployment(&format!("w{index}"), 6);
        plane
            .create_all([
                policy(&format!("w{index}"), &[&template], equal_shares()),
                template,
            ])
            .await;
    }
    let shares = ["member1", "member2", "member3"].map(|member| (member, 2));
    let mut before = Vec::new();
    for index in 0..5 {
        before.push(wait_until_placed(&plane, &format!("w{index}-deployment"), &shares).await);
    }
    wait_for_pending_work(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    for before in before {
        let name = before.metadata.name.as_deref().unwrap();
        let now = bindings.get(name).await.unwrap();
        assert_eq!(
            now.metadata.generation, before.metadata.generation,
            "{name}"
        );
        assert_eq!(
            now.metadata.generation,
            Some(2),
            "the detector and one scheduler must each write the binding once"
        );
    }
    plane.stop().await;
}
