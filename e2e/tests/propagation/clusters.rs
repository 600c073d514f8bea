//! Tests of members that do not respond, are not ready, are removed or replaced, or refuse access, and of restarted
//! controllers.

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use berth_test_requirements::needs;

use berth_controllers::cluster::{self, HeartbeatOptions};
use berth_controllers::monitor::Monitor;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::manifests::{cluster_role, config_map, deployment, policy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_never_responds_does_not_delay_others() {
    let mut fleet = Fleet::without_clusters(1).await;
    fleet.join(0).await;
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            connections.push(connection);
        }
    });
    let (ca, token) = fleet.members[0].credentials();
    fleet.apply_secret("m0", &token, &ca).await;
    fleet.register("m0", Some(&url)).await;
    fleet.start_controllers();
    // The number of objects exceeds the number of concurrent writes to m0.
    let maps: Vec<_> = (0..20)
        .map(|index| config_map(&format!("map{index}")))
        .collect();
    for map in &maps {
        fleet.apply(map.clone()).await;
        fleet.apply(policy(map, &["m0", "m1"])).await;
    }
    for map in &maps {
        fleet.members[0].wait_until_exists(map).await;
    }
    // No binding is fully applied, because m0 has none of the objects.
    for index in 0..maps.len() {
        fleet
            .wait_for_fully_applied(&format!("map{index}-configmap"), "False")
            .await;
    }
    accepting.abort();
    fleet.stop().await;
}

/// While a member is not ready, the controllers neither create nor delete objects in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_reach_a_member_once_it_is_ready() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let (first, second) = (config_map("first"), config_map("second"));
    fleet.apply(first.clone()).await;
    fleet.apply(policy(&first, &["m1"])).await;
    m1.wait_until_exists(&first).await;
    fleet.report_ready("m1", false).await;
    fleet.apply(second.clone()).await;
    fleet.apply(policy(&second, &["m1"])).await;
    let work = berth_api::names::work_name("ConfigMap", "second", "default");
    wait_for(&fleet.works("m1"), &work, "dispatching", |work| {
        let mut conditions = work.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| c.type_ == "Dispatching")
    })
    .await;
    fleet.delete(&first).await;
    let work = berth_api::names::work_name("ConfigMap", "first", "default");
    wait_for(&fleet.works("m1"), &work, "deletion", |work| {
        work.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(m1.get(&first).await.is_some() && m1.get(&second).await.is_none());
    fleet.report_ready("m1", true).await;
    m1.wait_until_exists(&second).await;
    m1.wait_until_gone(&first).await;
    fleet.stop().await;
}

/// After their restart, the controllers delete the copies of a deleted template. The controllers also create a copy
/// again if a user has deleted this copy in a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_while_the_controllers_are_stopped_are_carried_out_later() {
    let mut fleet = Fleet::start(2).await;
    let (map, kept) = (config_map("settings"), config_map("kept"));
    for map in [&map, &kept] {
        fleet.apply(map.clone()).await;
        fleet.apply(policy(map, &["m1", "m2"])).await;
        for member in &fleet.members {
            member.wait_until_exists(map).await;
        }
    }
    fleet.stop_controllers().await;
    fleet.delete(&map).await;
    // A user deletes an object in a member meanwhile.
    fleet.members[0].delete(&kept).await;
    fleet.start_controllers();
    for member in &fleet.members {
        member.wait_until_gone(&map).await;
        member.wait_until_exists(&kept).await;
    }
    fleet.stop().await;
}

/// The binding reports `Unauthorized` until the Secret of the cluster contains the valid token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_reported_and_a_corrected_one_is_used() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let (ca, token) = m1.credentials();
    let map = config_map("settings");
    fleet.apply_secret("m0", "wrong", &ca).await;
    fleet.register("m0", Some(&m1.url())).await;
    fleet.apply(map.clone()).await;
    fleet.apply(policy(&map, &["m0"])).await;
    fleet
        .wait_for_fully_applied("settings-configmap", "False")
        .await;
    let reports_unauthorized = |binding: &berth_api::ResourceBinding| {
        let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
        let mut messages = items.filter_map(|item| item.applied_message.as_deref());
        messages.any(|message| message.contains("Unauthorized"))
    };
    wait_for(
        &fleet.bindings(),
        "settings-configmap",
        "the reason",
        reports_unauthorized,
    )
    .await;
    fleet.apply_secret("m0", &token, &ca).await;
    m1.wait_until_exists(&map).await;
    fleet
        .wait_for_fully_applied("settings-configmap", "True")
        .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_of_a_cluster_without_an_endpoint_are_reported_and_deleted() {
    let fleet = Fleet::start(1).await;
    fleet.register("m0", None).await;
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    fleet.apply(policy(&map, &["m0", "m1"])).await;
    fleet.members[0].wait_until_exists(&map).await;
    let binding = wait_for(
        &fleet.bindings(),
        "settings-configmap",
        "the error of m0",
        |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            items.filter(|item| item.applied_message.is_some()).count() == 1
        },
    )
    .await;
    let items = binding.status.unwrap().aggregated_status;
    let message = items[0].applied_message.as_deref().unwrap();
    assert!(
        message.ends_with("cluster m0 has no apiEndpoint"),
        "{message}"
    );
    fleet.delete(&map).await;
    fleet.members[0].wait_until_gone(&map).await;
    berth_e2e::eventually("no work to be left", async || {
        let left = fleet
            .works("m0")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_cluster_gets_no_more_works_although_a_binding_names_it() {
    let mut fleet = Fleet::without_clusters(2).await;
    fleet.join(0).await;
    fleet.start_controllers();
    let cluster_controller = tokio::spawn(cluster::run(
        fleet.client.clone(),
        HeartbeatOptions::default(),
        Monitor::default(),
        CancellationToken::new(),
    ));
    let m1 = &fleet.members[0];
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    fleet.apply(policy(&map, &["m1"])).await;
    m1.wait_until_exists(&map).await;
    // Keep the scheduler from moving the ConfigMap to another cluster.
    let suspended = Patch::Merge(json!({ "spec": { "suspension": { "scheduling": true } } }));
    fleet
        .bindings()
        .patch("settings-configmap", &PatchParams::default(), &suspended)
        .await
        .unwrap();
    let m1_cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m1" } });
    fleet
        .wait_for(&m1_cluster, "the finalizer", |cluster| {
            cluster["metadata"]["finalizers"][0].is_string()
        })
        .await;
    fleet.delete(&m1_cluster).await;
    m1.wait_until_gone(&map).await;
    let namespaces: Api<Namespace> = Api::all(fleet.client.clone());
    berth_e2e::eventually(
        "deletion of the execution namespace",
        async || match namespaces.get_opt("karmada-es-m1").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    // The annotation causes a reconciliation of the binding. This reconciliation is finished when the object of the
    // later binding exists in m2.
    let again = Patch::Merge(json!({ "metadata": { "annotations": { "again": "yes" } } }));
    let binding = fleet
        .bindings()
        .patch("settings-configmap", &PatchParams::default(), &again)
        .await
        .unwrap();
    assert_eq!(binding.spec.clusters[0].name, "m1");
    fleet.join(1).await;
    let marker = config_map("marker");
    fleet.apply(marker.clone()).await;
    fleet.apply(policy(&marker, &["m2"])).await;
    fleet.members[1].wait_until_exists(&marker).await;
    assert!(namespaces.get_opt("karmada-es-m1").await.unwrap().is_none());
    assert_eq!(m1.get(&map).await, None);
    cluster_controller.abort();
    fleet.stop().await;
}

/// The member gets all objects again, and the controllers watch the new server.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_replaced_by_an_empty_one_is_filled_again() {
    let mut fleet = Fleet::start(2).await;
    let (web, map, role) = (
        deployment("web", 1),
        config_map("settings"),
        cluster_role("reader"),
    );
    for object in [&web, &map, &role] {
        fleet.apply(object.clone()).await;
        fleet.apply(policy(object, &["m1", "m2"])).await;
        for member in &fleet.members {
            member.wait_until_exists(object).await;
        }
    }
    // Raise the member's resource version above the resource version of its empty replacement.
    for round in 0..100 {
        let changes = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        fleet.members[0].edit(&map, changes).await;
    }
    let m1 = fleet.members.remove(0);
    let m1 = m1.replace_with_empty().await.unwrap();
    for object in [&web, &map, &role] {
        m1.wait_until_exists(object).await;
    }
    fleet.edit(&map, json!({ "data": { "a": "2" } })).await;
    m1.wait_for(&map, "changed", |map| map["data"]["a"] == "2")
        .await;
    // An object that a user deletes in the new member is created again.
    m1.delete(&web).await;
    m1.wait_until_exists(&web).await;
    fleet.members.push(m1);
    fleet.stop().await;
}
