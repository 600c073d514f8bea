//! Tests of a cluster that is a member of two control planes.

use berth_api::Cluster;
use berth_apiserver::Server;
use berth_test_transcripts::assert_snapshot;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::test_servers::{TestServers, entry};

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";
const UNJOIN: &str = "unjoin member1 --cluster-kubeconfig member1.kubeconfig";
const OTHER: &str = "--kubeconfig other.kubeconfig";
const LABEL: &str = "members.berth/control-plane";
const ACCOUNT: &str = "karmada-member1";

/// Returns the ID of a control plane, which is the UID of its namespace kube-system.
async fn id_of(server: &Server) -> String {
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces.get("kube-system").await.unwrap().uid().unwrap()
}

/// Returns a client for the member. The client authenticates with the token that a control plane stores.
async fn stored_client(servers: &TestServers, control_plane: &Server) -> Client {
    let secrets: Api<Secret> = Api::namespaced(control_plane.client(), "karmada-cluster");
    let token = entry(&secrets.get("member1").await.unwrap(), "token");
    TestServers::with_token(&servers.member1, &token).await
}

/// Reports whether the ServiceAccount of the client still has rights in the member.
async fn has_access(client: &Client) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.list(&ListParams::default()).await.is_ok()
}

fn accounts(servers: &TestServers) -> Api<ServiceAccount> {
    Api::namespaced(servers.member1.client(), "karmada-cluster")
}

async fn account_names(servers: &TestServers) -> Vec<String> {
    let all = accounts(servers)
        .list(&ListParams::default())
        .await
        .unwrap();
    let names = all.iter().map(ResourceExt::name_any);
    names.filter(|name| name.starts_with("karmada-")).collect()
}

/// Removes Berth's label from the objects in the member. Objects that karmadactl creates have no such label.
async fn remove_labels(servers: &TestServers) {
    async fn remove_label<K>(api: Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: null } } }));
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    let role = format!("karmada-controller-manager:{ACCOUNT}");
    remove_label(accounts(servers), ACCOUNT).await;
    remove_label(Api::<ClusterRole>::all(servers.member1.client()), &role).await;
    remove_label(
        Api::<ClusterRoleBinding>::all(servers.member1.client()),
        &role,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_control_planes_can_share_a_member() {
    let servers = TestServers::start().await;
    let other = servers.other_control_plane().await;
    servers.run(JOIN).await;
    let ours = stored_client(&servers, &servers.control_plane).await;
    let other_id = id_of(&other).await;
    let own = format!("{ACCOUNT}-{other_id}");
    let impersonator = format!("karmada-impersonator-{other_id}");
    servers.run(&format!("{JOIN} {OTHER} --dry-run")).await;
    servers.run(&format!("{JOIN} {OTHER}")).await;
    let theirs = stored_client(&servers, &other).await;
    assert!(has_access(&ours).await && has_access(&theirs).await);
    // Joining again creates no third account.
    servers.run(&format!("{JOIN} {OTHER}")).await;
    servers.run(JOIN).await;
    let ours = stored_client(&servers, &servers.control_plane).await;
    assert_eq!(
        account_names(&servers).await,
        ["karmada-impersonator", &impersonator, ACCOUNT, &own]
    );
    // Each control plane impersonates its users with an account of its own, so that neither overwrites the ClusterRole of
    // the other.
    let clusters: Api<Cluster> = Api::all(other.client());
    let cluster = clusters.get("member1").await.unwrap();
    assert_eq!(
        cluster.annotations().get("members.berth/impersonator"),
        Some(&impersonator)
    );
    let cluster = servers.clusters().get("member1").await.unwrap();
    assert_eq!(
        cluster.annotations().get("members.berth/impersonator"),
        None
    );

    servers.run(&format!("{UNJOIN} {OTHER} --dry-run")).await;
    assert!(has_access(&theirs).await);
    servers.run(&format!("{UNJOIN} {OTHER}")).await;
    assert!(
        has_access(&ours).await,
        "the remaining control plane lost its access"
    );
    assert!(
        !has_access(&theirs).await,
        "the removed control plane still has access"
    );

    servers.run(UNJOIN).await;
    assert!(!has_access(&ours).await);
    assert_snapshot!(servers.session());
    other.shutdown().await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_control_plane_can_unjoin_first() {
    let servers = TestServers::start().await;
    let other = servers.other_control_plane().await;
    servers.run(JOIN).await;
    servers.run(&format!("{JOIN} {OTHER}")).await;
    servers.run(UNJOIN).await;
    let theirs = stored_client(&servers, &other).await;
    assert!(
        has_access(&theirs).await,
        "the remaining control plane lost its access"
    );
    servers.run(&format!("{UNJOIN} {OTHER}")).await;
    assert_snapshot!(servers.session());
    other.shutdown().await;
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_without_a_label_is_kept_for_the_control_plane_that_stores_its_token() {
    let servers = TestServers::start().await;
    let other = servers.other_control_plane().await;
    servers.run(JOIN).await;
    remove_labels(&servers).await;
    servers.run(&format!("{JOIN} {OTHER}")).await;
    servers.run(&format!("{UNJOIN} {OTHER}")).await;
    let ours = stored_client(&servers, &servers.control_plane).await;
    assert!(
        has_access(&ours).await,
        "the remaining control plane lost its access"
    );
    // Joining again adds the label.
    servers.run(JOIN).await;
    let account = accounts(&servers).get(ACCOUNT).await.unwrap();
    let id = id_of(&servers.control_plane).await;
    assert_eq!(account.labels().get(LABEL), Some(&id));
    remove_labels(&servers).await;
    servers.run(UNJOIN).await;
    let clusters: Api<Cluster> = Api::all(other.client());
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    assert_snapshot!(servers.session());
    other.shutdown().await;
    servers.stop().await;
}
