//! Dispatching is suspended and resumed.

use serde_json::json;

use crate::fleet::Fleet;
use crate::manifests::{config_map, policy, with_spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_cluster_gets_nothing_until_it_is_resumed() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    let suspension =
        json!({ "suspension": { "dispatchingOnClusters": { "clusterNames": ["m1"] } } });
    let placing = with_spec(policy(&map, &["m1", "m2"]), suspension);
    fleet.apply(placing.clone()).await;
    m2.has(&map).await;
    let name = berth_api::names::work_name("ConfigMap", "settings", "default");
    let dispatching = async |member: &str, wanted: &str| {
        fleet
            .until_typed(&fleet.works(member), &name, "Dispatching", |work| {
                let conditions = work.status.iter().flat_map(|s| &s.conditions);
                let mut conditions = conditions.filter(|c| c.type_ == "Dispatching");
                conditions.any(|c| c.status == wanted)
            })
            .await
    };
    let work = dispatching("m1", "False").await;
    assert_eq!(work.spec.suspend_dispatching, Some(true));
    dispatching("m2", "True").await;
    assert_eq!(m1.get(&map).await, None);

    fleet
        .edit(&placing, json!({ "spec": { "suspension": null } }))
        .await;
    m1.has(&map).await;
    dispatching("m1", "True").await;

    // What is there stays as it is while everything is suspended.
    fleet
        .edit(
            &placing,
            json!({ "spec": { "suspension": { "dispatching": true } } }),
        )
        .await;
    dispatching("m1", "False").await;
    dispatching("m2", "False").await;
    fleet.edit(&map, json!({ "data": { "a": "2" } })).await;
    fleet
        .until_typed(&fleet.works("m1"), &name, "the edit", |work| {
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
            .until(&map, "the edit", |map| map["data"]["a"] == "2")
            .await;
    }
    fleet.stop().await;
}
