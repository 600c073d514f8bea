//! A test of suspended dispatching: the Works of a policy are not applied to their members until dispatching resumes.

use serde_json::json;

use crate::fleet::Fleet;
use crate::manifests::{config_map, policy, with_spec};

/// Dispatching is suspended for one cluster first, and for all clusters later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_clusters_get_changes_after_resumption() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    let suspension =
        json!({ "suspension": { "dispatchingOnClusters": { "clusterNames": ["m1"] } } });
    let placing = with_spec(policy(&map, &["m1", "m2"]), suspension);
    fleet.apply(placing.clone()).await;
    m2.wait_until_exists(&map).await;
    let name = berth_api::names::work_name("ConfigMap", "settings", "default");
    let wait_for_dispatching = async |member: &str, wanted: &str| {
        fleet
            .wait_for_typed(&fleet.works(member), &name, "Dispatching", |work| {
                let conditions = work.status.iter().flat_map(|s| &s.conditions);
                let mut conditions = conditions.filter(|c| c.type_ == "Dispatching");
                conditions.any(|c| c.status == wanted)
            })
            .await
    };
    let work = wait_for_dispatching("m1", "False").await;
    assert_eq!(work.spec.suspend_dispatching, Some(true));
    wait_for_dispatching("m2", "True").await;
    assert_eq!(m1.get(&map).await, None);

    fleet
        .edit(&placing, json!({ "spec": { "suspension": null } }))
        .await;
    m1.wait_until_exists(&map).await;
    wait_for_dispatching("m1", "True").await;

    // Existing objects are not changed while all dispatching is suspended.
    fleet
        .edit(
            &placing,
            json!({ "spec": { "suspension": { "dispatching": true } } }),
        )
        .await;
    wait_for_dispatching("m1", "False").await;
    wait_for_dispatching("m2", "False").await;
    fleet.edit(&map, json!({ "data": { "a": "2" } })).await;
    fleet
        .wait_for_typed(&fleet.works("m1"), &name, "the edit", |work| {
            work.spec.workload.manifests[0]["data"]["a"] == "2"
        })
        .await;
    assert_eq!(m1.get(&map).await.unwrap()["data"]["a"], "1");
    fleet
        .edit(
            &placing,
            json!({ "spec": { "suspension": { "dispatching": false } } }),
        )
        .await;
    for member in [m1, m2] {
        member
            .wait_for(&map, "the edit", |map| map["data"]["a"] == "2")
            .await;
    }
    fleet.stop().await;
}
