//! Tests of the creation, update and deletion of objects in members, after scheduling and after changes of the template
//! or the policy.

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use kube::api::ListParams;
use serde_json::json;

use crate::fleet::Fleet;
use crate::manifests::{cluster_role, config_map, deployment, divided, policy};

/// A changed policy moves the replicas to other members. The deletion of the template deletes the objects and Works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_gets_its_share_of_replicas_and_template_changes() {
    let fleet = Fleet::start(3).await;
    let [m1, m2, m3] = &fleet.members[..] else {
        panic!("the fleet must have three members")
    };
    let web = deployment("web", 3);
    fleet.apply(web.clone()).await;
    fleet.apply(divided(&web, &[("m1", 2), ("m2", 1)])).await;
    for (member, replicas) in [(m1, 2), (m2, 1)] {
        let object = member.wait_until_exists(&web).await;
        assert_eq!(object["spec"]["replicas"], replicas, "{}", member.name);
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["karmada.io/managed"], "true");
        assert!(labels["resourcebinding.karmada.io/permanent-id"].is_string());
        assert!(labels["work.karmada.io/permanent-id"].is_string());
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(
            annotations["resourcebinding.karmada.io/name"],
            "web-deployment"
        );
        let generation = &annotations["resourcetemplate.karmada.io/generation"];
        assert!(generation.is_string(), "{generation}");
        assert_eq!(annotations["work.karmada.io/conflict-resolution"], "abort");
        let owner = annotations["work.karmada.io/name"].as_str().unwrap();
        fleet.works(&member.name).get(owner).await.unwrap();
    }
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    assert_eq!(m3.get(&web).await, None);

    let image = json!([{ "name": "main", "image": "nginx:2" }]);
    let changes = json!({ "replicas": 6, "template": { "spec": { "containers": image } } });
    fleet.edit(&web, json!({ "spec": changes })).await;
    for (member, replicas) in [(m1, 4), (m2, 2)] {
        member
            .wait_for(&web, "edited", |web| {
                web["spec"]["replicas"] == replicas
                    && web["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
            })
            .await;
    }

    fleet.apply(divided(&web, &[("m2", 1), ("m3", 1)])).await;
    m1.wait_until_gone(&web).await;
    for member in [m2, m3] {
        member
            .wait_for(&web, "the new share", |web| web["spec"]["replicas"] == 3)
            .await;
    }

    fleet.delete(&web).await;
    m2.wait_until_gone(&web).await;
    m3.wait_until_gone(&web).await;
    for member in ["m1", "m2", "m3"] {
        let works = fleet.works(member);
        berth_e2e::eventually("no work to be left", async || {
            let left = works.list(&ListParams::default()).await.unwrap().items;
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await;
    }
    fleet.stop().await;
}

/// Both kinds reach all members of their policies. Later, an edit of the ConfigMap and the deletion of the
/// ClusterRole reach these members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_maps_and_cluster_roles_are_propagated() {
    let fleet = Fleet::start(2).await;
    let (map, role) = (config_map("settings"), cluster_role("reader"));
    for template in [&map, &role] {
        fleet.apply(template.clone()).await;
        fleet.apply(policy(template, &["m1", "m2"])).await;
    }
    for member in &fleet.members {
        assert_eq!(
            member.wait_until_exists(&map).await["data"],
            json!({ "a": "1" })
        );
        let object = member.wait_until_exists(&role).await;
        assert_eq!(object["rules"], role["rules"]);
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(
            annotations["clusterresourcebinding.karmada.io/name"],
            "reader-clusterrole"
        );
    }
    fleet
        .wait_for_fully_applied("settings-configmap", "True")
        .await;
    let bindings = fleet.cluster_bindings();
    wait_for(&bindings, "reader-clusterrole", "applied", |binding| {
        let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
        items.filter(|item| item.applied == Some(true)).count() == 2
    })
    .await;

    fleet
        .edit(&map, json!({ "data": { "a": null, "b": "2" } }))
        .await;
    for member in &fleet.members {
        member
            .wait_for(&map, "edited", |map| map["data"] == json!({ "b": "2" }))
            .await;
    }
    fleet.delete(&role).await;
    for member in &fleet.members {
        member.wait_until_gone(&role).await;
    }
    fleet.stop().await;
}

/// The binding reports the missing namespace. The ConfigMap is created once the member has the namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_missing_in_a_member_is_reported_and_awaited() {
    let fleet = Fleet::start(1).await;
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    fleet.apply(namespace.clone()).await;
    let mut map = config_map("settings");
    map["metadata"]["namespace"] = json!("shop");
    let mut policy = policy(&map, &["m1"]);
    policy["metadata"]["namespace"] = json!("shop");
    fleet.apply(map.clone()).await;
    fleet.apply(policy).await;
    let binding = json!({ "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": { "name": "settings-configmap", "namespace": "shop" } });
    fleet
        .wait_for(&binding, "the reason", |binding| {
            let message = &binding["status"]["aggregatedStatus"][0]["appliedMessage"];
            message
                .as_str()
                .is_some_and(|m| m.contains("\"shop\" not found"))
        })
        .await;
    fleet.members[0].apply(namespace).await;
    fleet.members[0].wait_until_exists(&map).await;
    fleet.stop().await;
}
