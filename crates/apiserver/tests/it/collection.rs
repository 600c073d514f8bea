//! Garbage collection and namespaces.

use berth_apiserver::ServerConfig;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{conditions, wait::await_condition};
use serde_json::json;

use crate::harness::{Harness, PATIENCE};

fn owned(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let references = owner.map(|o| {
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": o.metadata.name, "uid": o.metadata.uid,
            "blockOwnerDeletion": true}])
    });
    serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": references}}))
        .unwrap()
}

async fn gone(api: &Api<ConfigMap>, object: &ConfigMap) {
    let (name, uid) = (
        object.metadata.name.as_deref().unwrap(),
        object.metadata.uid.as_deref().unwrap(),
    );
    let wait = await_condition(api.clone(), name, conditions::is_deleted(uid));
    tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    for params in [DeleteParams::background(), DeleteParams::foreground()] {
        let owner = api
            .create(&PostParams::default(), &owned("owner", None))
            .await
            .unwrap();
        let child = api
            .create(&PostParams::default(), &owned("child", Some(&owner)))
            .await
            .unwrap();
        let grandchild = api
            .create(&PostParams::default(), &owned("grandchild", Some(&child)))
            .await
            .unwrap();
        api.delete("owner", &params).await.unwrap();
        for object in [&owner, &child, &grandchild] {
            gone(&api, object).await;
        }
    }
}

#[tokio::test]
async fn orphans_stay() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let owner = api
        .create(&PostParams::default(), &owned("owner", None))
        .await
        .unwrap();
    api.create(&PostParams::default(), &owned("child", Some(&owner)))
        .await
        .unwrap();
    api.delete("owner", &DeleteParams::orphan()).await.unwrap();
    gone(&api, &owner).await;
    let child = api.get("child").await.unwrap();
    assert_eq!(child.metadata.owner_references.unwrap_or_default().len(), 0);
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let h = Harness::start().await;
    let api: Api<ConfigMap> = Api::default_namespaced(h.client.clone());
    let mut ghost = owned("ghost", None);
    ghost.metadata.uid = Some("00000000-0000-0000-0000-000000000000".into());
    let child = api
        .create(&PostParams::default(), &owned("child", Some(&ghost)))
        .await
        .unwrap();
    gone(&api, &child).await;
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied() {
    let h = Harness::start().await;
    let namespaces: Api<Namespace> = Api::all(h.client.clone());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "work"}})).unwrap();
    let created = namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let inside: Api<ConfigMap> = Api::namespaced(h.client.clone(), "work");
    inside
        .create(&PostParams::default(), &owned("a", None))
        .await
        .unwrap();
    namespaces
        .delete("work", &DeleteParams::default())
        .await
        .unwrap();
    let wait = await_condition(
        namespaces,
        "work",
        conditions::is_deleted(created.metadata.uid.as_deref().unwrap()),
    );
    tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    assert!(inside.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn events_do_not_live_for_ever() {
    let h = Harness::with(ServerConfig {
        events_live: std::time::Duration::from_secs(1),
        ..ServerConfig::default()
    })
    .await;
    let api: Api<Event> = Api::default_namespaced(h.client.clone());
    let event: Event = serde_json::from_value(json!({"metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}))
    .unwrap();
    let event = api.create(&PostParams::default(), &event).await.unwrap();
    let uid = event.metadata.uid.unwrap();
    let wait = await_condition(api, "e", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
}
