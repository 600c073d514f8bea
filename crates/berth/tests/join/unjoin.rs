//! Tests of `berth unjoin`.

use std::fmt::Debug;

use berth_api::Cluster;
use berth_api::work::Work;
use berth_test_transcripts::assert_snapshot;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::test_servers::TestServers;

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";
const UNJOIN: &str = "unjoin member1 --cluster-kubeconfig member1.kubeconfig";

/// Returns the names of the objects that exist and are not being deleted.
async fn existing<K>(api: &Api<K>, names: &[&str]) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut left = Vec::new();
    for name in names {
        let metadata = api.get_metadata_opt(name).await.unwrap();
        // A deleted namespace exists until its objects are deleted.
        if metadata.is_some_and(|object| object.metadata.deletion_timestamp.is_none()) {
            left.push((*name).to_owned());
        }
    }
    left
}

/// Returns the objects that `berth join` has created and that still exist, in the control plane and in the member.
async fn remaining(servers: &TestServers) -> Vec<String> {
    let member = || servers.member1.client();
    let role = "karmada-controller-manager:karmada-member1";
    let accounts: Api<ServiceAccount> = Api::namespaced(member(), "karmada-cluster");
    let mut all = existing::<Cluster>(&servers.clusters(), &["member1"]).await;
    all.extend(existing(&servers.secrets(), &["member1", "member1-impersonator"]).await);
    all.extend(existing::<ClusterRole>(&Api::all(member()), &[role]).await);
    all.extend(existing::<ClusterRoleBinding>(&Api::all(member()), &[role]).await);
    all.extend(existing(&accounts, &["karmada-member1", "karmada-impersonator"]).await);
    all.extend(existing::<Namespace>(&Api::all(member()), &["karmada-cluster"]).await);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unjoining_removes_all_objects() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    assert_eq!(remaining(&servers).await.len(), 8);
    servers.run(&format!("{UNJOIN} --dry-run")).await;
    assert_eq!(remaining(&servers).await.len(), 8);
    servers.run(UNJOIN).await;
    assert_snapshot!(servers.session());
    assert_eq!(remaining(&servers).await, Vec::<String>::new());
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_members_kubeconfig_objects_in_the_member_are_kept() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    servers.run("unjoin member1").await;
    assert_snapshot!(servers.session());
    assert_eq!(remaining(&servers).await.len(), 5);
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_another_control_plane_are_kept() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let accounts: Api<ServiceAccount> =
        Api::namespaced(servers.member1.client(), "karmada-cluster");
    let other = json!({ "metadata": { "name": "karmada-elsewhere" } });
    let other = serde_json::from_value(other).unwrap();
    accounts
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    servers.run(UNJOIN).await;
    assert_snapshot!(servers.session());
    assert_eq!(
        remaining(&servers).await,
        ["karmada-impersonator", "karmada-cluster"]
    );
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_works_is_removed_only_with_force() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let client = servers.control_plane.client();
    let space = json!({ "metadata": { "name": "karmada-es-member1" } });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let space = serde_json::from_value(space).unwrap();
    namespaces
        .create(&PostParams::default(), &space)
        .await
        .unwrap();
    let works: Api<Work> = Api::namespaced(client, "karmada-es-member1");
    let work = json!({ "metadata": { "name": "web", "finalizers": ["karmada.io/execution-controller"] },
        "spec": { "workload": {} } });
    let work = serde_json::from_value(work).unwrap();
    works.create(&PostParams::default(), &work).await.unwrap();
    for _ in 0..2 {
        let result = servers.berth("unjoin member1 --wait 0").await;
        assert_eq!(result.code, Some(1), "{result:?}");
        let cluster = servers.clusters().get("member1").await.unwrap();
        let finalizers = cluster.metadata.finalizers.unwrap();
        assert_eq!(finalizers, ["members.berth/unjoin"]);
        assert!(cluster.metadata.deletion_timestamp.is_some());
    }
    servers.run("unjoin member1 --wait 0 --force").await;
    let left = servers.clusters().get_opt("member1").await.unwrap();
    assert!(left.is_none());
    assert_snapshot!(servers.session());
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_a_finalizer_is_removed_only_with_force() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let held =
        Patch::Merge(json!({ "metadata": { "finalizers": ["karmada.io/cluster-controller"] } }));
    let clusters = servers.clusters();
    clusters
        .patch("member1", &PatchParams::default(), &held)
        .await
        .unwrap();
    let result = servers.berth("unjoin member1 --wait 0").await;
    assert_eq!(result.code, Some(1), "{result:?}");
    servers.run("unjoin member1 --wait 0 --force").await;
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    assert_snapshot!(servers.session());
    servers.stop().await;
}
