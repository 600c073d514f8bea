//! A scheduler that starts anew, and two that meet, write nothing that is written already.

use berth_api::ResourceBinding;
use berth_e2e::Plane;
use serde_json::{Value, json};

use crate::manifests::{but, deployment, equal_shares, everywhere, on, policy};
use crate::watching::{after_all_else, component, events_about, placed};

fn for_my_scheduler(policy: Value) -> Value {
    but(
        policy,
        json!({ "spec": { "schedulerName": "my-scheduler" } }),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_scheduler_leaves_placed_workloads_alone() {
    let plane = Plane::start().await;
    let first = plane.run_scheduler("my-scheduler");
    let (copied, shared) = (deployment("copied", 1), deployment("shared", 6));
    plane
        .create_all([
            for_my_scheduler(policy("copied", &[&copied], everywhere())),
            for_my_scheduler(policy("shared", &[&shared], equal_shares())),
            copied,
            shared,
        ])
        .await;
    let each = |replicas| ["member1", "member2", "member3"].map(|member| (member, replicas));
    let before = [
        placed(&plane, "copied-deployment", &each(1)).await,
        placed(&plane, "shared-deployment", &each(2)).await,
    ];
    first.cancel();

    // What comes while nobody is there is placed by the next one, after it has looked at the others.
    let later = deployment("later", 1);
    plane
        .create_all([
            for_my_scheduler(policy("later", &[&later], on(&["member1"]))),
            later,
        ])
        .await;
    plane.run_scheduler("my-scheduler");
    placed(&plane, "later-deployment", &[("member1", 1)]).await;
    after_all_else(&plane).await;
    let bindings = plane.api::<ResourceBinding>();
    for before in before {
        let name = before.metadata.name.as_deref().unwrap();
        let now = bindings.get(name).await.unwrap();
        // What the members report changes the status, too.
        let placing = |binding: &ResourceBinding| {
            let status = binding.status.clone().unwrap_or_default();
            let spec = binding.spec.clone();
            (
                binding.metadata.generation,
                spec,
                status.last_scheduled_time,
            )
        };
        assert_eq!(placing(&now), placing(&before), "{name}");
        let mut events = events_about(&plane, "ResourceBinding", name).await;
        events.retain(|event| component(event) == "my-scheduler");
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].count, Some(1), "{events:?}");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_of_one_name_agree() {
    // This is a mistake of the operator. Each write names the version that it is based on, so that the
    // slower one finds the work done.
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
        before.push(placed(&plane, &format!("w{index}-deployment"), &shares).await);
    }
    after_all_else(&plane).await;
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
            "one write by the detector, one by a scheduler"
        );
    }
    plane.stop().await;
}
