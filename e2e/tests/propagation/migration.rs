//! Tests of workloads that move to other clusters: the old replicas stay until the new ones are ready, and the last
//! healthy copy stays as long as there is no other.

use berth_api::condition;
use berth_api::well_known::{CONDITION_MIGRATING, MAX_MOVING, MAX_SURGE};
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, divided, policy, with_spec};

/// Reports the replicas of a Deployment in a member as existing, and some of them as ready.
async fn report(fleet: &Fleet, member: usize, web: &Value, replicas: i64, ready: i64) {
    let member = &fleet.members[member];
    let found = member.wait_for(web, "the replicas", |web| {
        web["spec"]["replicas"] == replicas
    });
    let generation = found.await["metadata"]["generation"].clone();
    let status = json!({ "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        "updatedReplicas": replicas, "observedGeneration": generation });
    member.report_status(web, status).await;
}

/// Waits until the condition `Migrating` of the binding contains a text.
async fn wait_for_migrating(fleet: &Fleet, text: &str) {
    let what = format!("the condition Migrating with {text:?}");
    wait_for(&fleet.bindings(), "web-deployment", &what, |binding| {
        let status_of = binding.status.as_ref().map(|status| &status.conditions[..]);
        let migrating = condition::find(status_of.unwrap_or_default(), CONDITION_MIGRATING);
        migrating.is_some_and(|found| found.message.contains(text))
    })
    .await;
}

/// Waits until the binding has no condition `Migrating`.
async fn wait_until_migrated(fleet: &Fleet) {
    let what = "the end of the migration";
    wait_for(&fleet.bindings(), "web-deployment", what, |binding| {
        let status_of = binding.status.as_ref().map(|status| &status.conditions[..]);
        condition::find(status_of.unwrap_or_default(), CONDITION_MIGRATING).is_none()
    })
    .await;
}

/// Propagates a Deployment of two ready replicas to the member `m1`.
async fn running_in_m1(fleet: &Fleet, web: &Value) {
    fleet.apply(divided(web, &[("m1", 1)])).await;
    fleet.apply(web.clone()).await;
    report(fleet, 0, web, 2, 2).await;
    let ready = fleet.wait_for(web, "two ready replicas", |web| {
        web["status"]["readyReplicas"] == 2
    });
    ready.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_replicas_leave_as_new_ones_become_ready_also_across_a_restart() {
    let mut fleet = Fleet::start(2).await;
    let web = deployment("web", 2);
    running_in_m1(&fleet, &web).await;

    fleet.apply(divided(&web, &[("m2", 1)])).await;
    report(&fleet, 1, &web, 2, 0).await;
    wait_for_migrating(&fleet, "0 of 2 are ready").await;
    let binding = fleet.wait_for_fully_applied("web-deployment", "True").await;
    let items = binding.status.unwrap().aggregated_status;
    assert_eq!(items.len(), 2, "{items:?}");

    // A restart of the controllers changes nothing.
    fleet.stop_controllers().await;
    fleet.start_controllers();
    report(&fleet, 1, &web, 2, 1).await;
    wait_for_migrating(
        &fleet,
        "1 of 2 are ready where the scheduler put them; m1 keeps 1",
    )
    .await;
    report(&fleet, 0, &web, 1, 1).await;
    assert_eq!(
        fleet.members[1].get(&web).await.unwrap()["spec"]["replicas"],
        2
    );

    report(&fleet, 1, &web, 2, 2).await;
    fleet.members[0].wait_until_gone(&web).await;
    wait_until_migrated(&fleet).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_of_the_policy_limits_the_replicas_that_move_at_a_time() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 2);
    running_in_m1(&fleet, &web).await;

    let mut moved = divided(&web, &[("m2", 1)]);
    moved["metadata"]["annotations"] = json!({ MAX_MOVING: "1" });
    fleet.apply(moved).await;
    report(&fleet, 1, &web, 1, 0).await;
    wait_for_migrating(&fleet, "m2 wait for room; at most 1 may move at a time").await;
    report(&fleet, 1, &web, 1, 1).await;
    report(&fleet, 0, &web, 1, 1).await;
    report(&fleet, 1, &web, 2, 2).await;
    fleet.members[0].wait_until_gone(&web).await;
    wait_until_migrated(&fleet).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_reversed_leaves_the_ready_replicas_alone() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 2);
    running_in_m1(&fleet, &web).await;
    fleet.apply(divided(&web, &[("m2", 1)])).await;
    report(&fleet, 1, &web, 2, 1).await;
    wait_for_migrating(&fleet, "m1 keeps 1").await;
    report(&fleet, 0, &web, 1, 1).await;

    fleet.apply(divided(&web, &[("m1", 1)])).await;
    report(&fleet, 0, &web, 2, 1).await;
    wait_for_migrating(&fleet, "m2 keeps 1").await;
    report(&fleet, 0, &web, 2, 2).await;
    fleet.members[1].wait_until_gone(&web).await;
    wait_until_migrated(&fleet).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_healthy_copy_stays_until_a_place_appears() {
    let fleet = Fleet::start(2).await;
    let web = deployment("web", 2);
    running_in_m1(&fleet, &web).await;
    let nowhere = json!({ "placement": { "clusterAffinity": { "clusterNames": ["none"] } } });
    fleet
        .apply(with_spec(divided(&web, &[("m1", 1)]), nowhere))
        .await;
    wait_for_migrating(&fleet, "m1 keeps 2, the last healthy copy").await;
    assert_eq!(
        fleet.members[0].get(&web).await.unwrap()["spec"]["replicas"],
        2
    );

    fleet.apply(divided(&web, &[("m2", 1)])).await;
    report(&fleet, 1, &web, 2, 2).await;
    fleet.members[0].wait_until_gone(&web).await;
    wait_until_migrated(&fleet).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_workload_needs_leaves_after_it() {
    let fleet = Fleet::start(2).await;
    let (settings, values) = (config_map("settings"), config_map("values"));
    let mut web = deployment("web", 2);
    let container = &mut web["spec"]["template"]["spec"]["containers"][0];
    container["envFrom"] = json!([{ "configMapRef": { "name": "values" } }]);
    let select = |kind: &Value| json!({ "apiVersion": kind["apiVersion"], "kind": kind["kind"], "name": kind["metadata"]["name"] });
    // `settings` belongs to the same policy, and `values` is a dependency.
    let placement = |cluster: &str| {
        let fields = json!({ "propagateDeps": true, "resourceSelectors": [select(&web), select(&settings)] });
        with_spec(policy(&web, &[cluster]), fields)
    };
    fleet.apply(settings.clone()).await;
    fleet.apply(values.clone()).await;
    fleet.apply(placement("m1")).await;
    fleet.apply(web.clone()).await;
    report(&fleet, 0, &web, 2, 2).await;
    fleet.members[0].wait_until_exists(&settings).await;
    fleet.members[0].wait_until_exists(&values).await;
    let ready = fleet.wait_for(&web, "two ready replicas", |web| {
        web["status"]["readyReplicas"] == 2
    });
    ready.await;

    fleet.apply(placement("m2")).await;
    wait_for_migrating(&fleet, "m1 keeps 1").await;
    for object in [&settings, &values] {
        fleet.members[1].wait_until_exists(object).await;
        assert!(fleet.members[0].get(object).await.is_some(), "{object}");
    }
    report(&fleet, 1, &web, 2, 2).await;
    for object in [&web, &settings, &values] {
        fleet.members[0].wait_until_gone(object).await;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_surge_the_old_replicas_leave_first() {
    let fleet = Fleet::start(2).await;
    let mut web = deployment("web", 2);
    web["metadata"]["annotations"] = json!({ MAX_SURGE: "0" });
    running_in_m1(&fleet, &web).await;
    fleet.apply(divided(&web, &[("m2", 1)])).await;
    fleet.members[1].wait_until_exists(&web).await;
    assert!(fleet.members[0].get(&web).await.is_none());
    fleet.stop().await;
}
