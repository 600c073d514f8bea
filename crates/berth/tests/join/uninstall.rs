//! Tests of `berth uninstall`.

use berth_test_transcripts::assert_snapshot;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::test_servers::TestServers;

async fn definitions(servers: &TestServers) -> Vec<String> {
    let api: Api<CustomResourceDefinition> = Api::all(servers.control_plane.client());
    let all = api.list(&ListParams::default()).await.unwrap();
    all.iter().map(ResourceExt::name_any).collect()
}

/// A deletion of the definitions would wait for the finalizers of their objects, which only controllers remove.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_not_deleted_while_objects_have_finalizers() {
    let servers = TestServers::start().await;
    servers
        .run("join member1 --cluster-kubeconfig member1.kubeconfig")
        .await;
    let held = json!({ "metadata": { "finalizers": ["karmada.io/cluster-controller"] } });
    servers
        .clusters()
        .patch("member1", &PatchParams::default(), &Patch::Merge(held))
        .await
        .unwrap();
    let before = definitions(&servers).await;
    assert!(before.len() > 5, "{before:?}");
    let result = servers.berth("uninstall").await;
    assert_eq!(result.code, Some(1), "{result:?}");
    assert_eq!(definitions(&servers).await, before);
    servers.run("uninstall --force --dry-run").await;
    assert_eq!(definitions(&servers).await, before);
    assert_snapshot!(servers.session());

    // A deletion that hangs, as that of `kubectl delete -f crds`.
    let api: Api<CustomResourceDefinition> = Api::all(servers.control_plane.client());
    for name in &before {
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }
    servers.run("uninstall --force").await;
    assert_eq!(definitions(&servers).await, Vec::<String>::new());
    // Nothing is left to delete.
    assert_eq!(servers.run("uninstall").await, "");
    servers.stop().await;
}
