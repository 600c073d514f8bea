//! Scenarios with limits on the replicas of clusters, in the annotation `scheduling.berth/replica-limits`.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::Plane;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::assertions::{
    is_settled, message, scheduled, targets, wait_for_failure, wait_for_member_changes,
    wait_until_placed,
};
use crate::manifests::{
    by_available_replicas, deployment_with_cpu, equal_shares, free_cpu, merged, on_clusters, policy,
};

const LIMITS: &str = "scheduling.berth/replica-limits";

fn limits(value: &str) -> Value {
    json!({ "metadata": { "annotations": { LIMITS: value } } })
}

/// The limits of a policy apply to its workloads, also after a change. Those of the template take precedence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_limits_take_effect() {
    let plane = Plane::start().await;
    let nginx = deployment_with_cpu("nginx", 7, "100m");
    let name = "nginx-deployment";
    let entry = |member: &str, limit: Value| {
        let target = json!({ "targetCluster": { "clusterNames": [member] } });
        json!({ "clusters": [merged(target, limit)] }).to_string()
    };
    let members = |replicas: [i32; 3]| {
        [
            ("member1", replicas[0]),
            ("member2", replicas[1]),
            ("member3", replicas[2]),
        ]
    };
    let first = limits(&entry("member1", json!({ "max": 1 })));
    let limited = merged(policy("p", &[&nginx], equal_shares()), first);
    plane.create_all([limited, nginx]).await;
    wait_until_placed(&plane, name, &members([1, 3, 3])).await;

    let (policies, deployments) = (plane.api::<PropagationPolicy>(), plane.api::<Deployment>());
    let second = limits(&entry("member3", json!({ "max": 1 })));
    plane.edit(&policies, "p", second).await;
    wait_until_placed(&plane, name, &members([3, 3, 1])).await;

    let of_template = limits(&entry("member2", json!({ "min": 5 })));
    plane.edit(&deployments, "nginx", of_template).await;
    wait_until_placed(&plane, name, &members([1, 5, 1])).await;

    plane.edit(&deployments, "nginx", limits("{")).await;
    let invalid = wait_for_failure(&plane, name, "Unschedulable").await;
    assert_eq!(
        message(&invalid),
        "invalid annotation scheduling.berth/replica-limits: EOF while parsing an object at line 1 column 1"
    );
    assert_eq!(targets(&invalid), members([1, 5, 1]));

    let none = json!({ "metadata": { "annotations": { LIMITS: null } } });
    plane.edit(&policies, "p", none.clone()).await;
    plane.edit(&deployments, "nginx", none).await;
    let bindings = plane.api::<ResourceBinding>();
    let without_limits = |binding: &ResourceBinding| {
        let annotations = binding.metadata.annotations.iter().flatten();
        is_settled(binding)
            && !annotations
                .into_iter()
                .any(|(name, _)| name.contains("replica-limits"))
    };
    let last = plane
        .until(&bindings, name, "without limits", without_limits)
        .await;
    assert!(targets(&last).iter().all(|(_, replicas)| *replicas <= 3));
    plane.stop().await;
}

/// The scheduler places the replicas that fit, and the others when a member has room. Running replicas stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_replicas_are_placed_when_there_is_room() {
    let plane = Plane::start().await;
    plane.report("member1", free_cpu(2)).await;
    plane.report("member2", free_cpu(1)).await;
    wait_for_member_changes(&plane).await;
    let nginx = deployment_with_cpu("nginx", 5, "1");
    let placement = merged(
        by_available_replicas(),
        on_clusters(&["member1", "member2"]),
    );
    let patient = merged(
        policy("p", &[&nginx], placement),
        limits(r#"{"fit": "BestEffort"}"#),
    );
    plane.create_all([patient, nginx]).await;
    let name = "nginx-deployment";
    let first = wait_until_placed(&plane, name, &[("member1", 2), ("member2", 1)]).await;
    assert_eq!(
        message(&first),
        "Binding has been scheduled successfully. Placed 3 of 5 replicas; 2 wait for room."
    );
    let condition = scheduled(&first).unwrap();
    assert_eq!(
        (&*condition.status, &*condition.reason),
        ("True", "Success")
    );

    plane.report("member2", free_cpu(4)).await;
    let bindings = plane.api::<ResourceBinding>();
    let is_complete = |binding: &ResourceBinding| {
        let placed = targets(binding)
            .iter()
            .map(|(_, replicas)| *replicas)
            .sum::<i32>();
        is_settled(binding) && placed == 5
    };
    let last = plane
        .until(&bindings, name, "placed completely", is_complete)
        .await;
    let kept = targets(&last).into_iter().zip([2, 1]);
    assert!(
        kept.into_iter()
            .all(|((_, replicas), before)| replicas >= before)
    );
    assert_eq!(message(&last), "Binding has been scheduled successfully.");
    plane.stop().await;
}
