//! Tests of each HTTP verb and of kubectl through `clusters/NAME/proxy`.

use berth_test_requirements::needs;
use std::process::{Command, Stdio};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use crate::test_plane::{TestPlane, proxy};

fn config_map(name: &str, value: &str) -> ConfigMap {
    let map = json!({ "metadata": { "name": name }, "data": { "key": value } });
    serde_json::from_value(map).unwrap()
}

#[tokio::test]
async fn every_verb_affects_only_the_member() {
    let plane = TestPlane::start(2).await;
    let through: Api<ConfigMap> = Api::namespaced(plane.through("member1"), "default");
    let inside = |member: usize| -> Api<ConfigMap> {
        let server = plane.control_plane.members()[member].server();
        Api::namespaced(server.client(), "default")
    };
    let parameters = PostParams::default();

    let version = through.list(&ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let watch = through.watch(&WatchParams::default(), &version).await;
    let mut watch = Box::pin(watch.unwrap());
    let created = through.create(&parameters, &config_map("a", "1")).await;
    // The watch stays open while the client writes.
    let Some(WatchEvent::Added(added)) = watch.try_next().await.unwrap() else {
        panic!("the watch does not report the new object");
    };
    assert_eq!(added.uid(), created.unwrap().uid());
    assert!(inside(0).get_opt("a").await.unwrap().is_some());
    assert!(inside(1).get_opt("a").await.unwrap().is_none());

    let patch = Patch::Merge(json!({ "data": { "key": "2" } }));
    let patched = through.patch("a", &PatchParams::default(), &patch).await;
    assert_eq!(patched.unwrap().data.unwrap()["key"], "2");
    let mut object = through.get("a").await.unwrap();
    object.data = Some([("key".to_owned(), "3".to_owned())].into());
    through.replace("a", &parameters, &object).await.unwrap();
    let listed = through.list(&ListParams::default()).await.unwrap();
    let found = listed.items.iter().find(|map| map.name_any() == "a");
    assert_eq!(found.unwrap().data.as_ref().unwrap()["key"], "3");
    through.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(inside(0).get_opt("a").await.unwrap().is_none());
    loop {
        match watch.try_next().await.unwrap() {
            Some(WatchEvent::Deleted(gone)) => break assert_eq!(gone.name_any(), "a"),
            Some(WatchEvent::Modified(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    plane.control_plane.stop().await;
}

#[tokio::test]
async fn discovery_lists_the_proxy_with_karmadas_verbs() {
    let plane = TestPlane::start(1).await;
    let response = plane
        .until_code(&plane.admin(), "/apis/cluster.karmada.io/v1alpha1", 200)
        .await;
    let resources = response.json()["resources"].clone();
    let resources = resources.as_array().unwrap().iter();
    let found: Vec<&Value> = resources
        .filter(|r| r["name"] == "clusters/proxy")
        .collect();
    let expected = json!({ "name": "clusters/proxy", "singularName": "", "namespaced": false,
        "kind": "ClusterProxyOptions", "verbs": ["create", "delete", "get", "patch", "update"] });
    assert_eq!(found, [&expected]);
    plane.control_plane.stop().await;
}

#[needs(kubectl)]
#[tokio::test]
async fn kubectl_can_use_a_member_as_its_server() {
    let plane = TestPlane::start(1).await;
    let kubectl = async |words: &str| {
        let server = format!("{}{}", plane.server().url(), proxy("member1"));
        let mut command = Command::new("kubectl");
        command
            .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
            .arg(format!("--cache-dir={}", plane.folder().display()))
            .arg(format!("--server={server}"))
            .args(words.split_whitespace())
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (_, nodes) = kubectl("get nodes -o name").await;
    assert_eq!(
        nodes.lines().count(),
        plane.control_plane.members()[0].nodes(),
        "{nodes}"
    );
    let name = nodes.lines().next().unwrap();
    for (words, expected) in [
        ("create namespace shop", "namespace/shop created"),
        ("explain deployment.spec.replicas", "replicas <integer>"),
        ("auth whoami", "berth:admin"),
        (&format!("describe {name}"), "Allocatable:"),
    ] {
        let (success, message) = kubectl(words).await;
        assert!(success && message.contains(expected), "{words}: {message}");
    }
    // These commands fail, because the member has no such pod and no metrics API.
    for (words, expected) in [
        ("logs nothing", "pods \"nothing\" not found"),
        ("top nodes", "Metrics API not available"),
    ] {
        let (success, message) = kubectl(words).await;
        assert!(!success && message.contains(expected), "{words}: {message}");
    }
    plane.control_plane.stop().await;
}
