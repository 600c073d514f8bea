//! A cluster that is a member of two control planes.

use berth_api::Cluster;
use berth_apiserver::Server;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::scene::{Scene, entry};

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";
const UNJOIN: &str = "unjoin member1 --cluster-kubeconfig member1.kubeconfig";
const OTHER: &str = "--kubeconfig other.kubeconfig";
const LABEL: &str = "members.berth/control-plane";
const ACCOUNT: &str = "karmada-member1";
const STAYS: &str = "member1: ServiceAccount karmada-cluster/karmada-member1 stays: another control plane uses it\n";
const UNKNOWN: &str = "member1: ServiceAccount karmada-cluster/karmada-member1 stays: nothing shows that this control plane uses it\n";

/// The label that names a control plane.
async fn id_of(server: &Server) -> String {
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces.get("kube-system").await.unwrap().uid().unwrap()
}

/// A client for the member with what a control plane keeps of it.
async fn way_in(scene: &Scene, control_plane: &Server) -> Client {
    let secrets: Api<Secret> = Api::namespaced(control_plane.client(), "karmada-cluster");
    let token = entry(&secrets.get("member1").await.unwrap(), "token");
    Scene::with_token(&scene.member1, &token).await
}

/// Whether an account of joining is there, and may do what it is for.
async fn works(client: &Client) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.list(&ListParams::default()).await.is_ok()
}

fn accounts(scene: &Scene) -> Api<ServiceAccount> {
    Api::namespaced(scene.member1.client(), "karmada-cluster")
}

async fn names_of_accounts(scene: &Scene) -> Vec<String> {
    let all = accounts(scene).list(&ListParams::default()).await.unwrap();
    let names = all.iter().map(ResourceExt::name_any);
    names.filter(|name| name.starts_with("karmada-")).collect()
}

/// Makes what joining made look as karmadactl leaves it.
async fn unmark(scene: &Scene) {
    async fn one<K>(api: Api<K>, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let bare = Patch::Merge(json!({ "metadata": { "labels": { LABEL: null } } }));
        api.patch(name, &PatchParams::default(), &bare)
            .await
            .unwrap();
    }
    let role = format!("karmada-controller-manager:{ACCOUNT}");
    one(accounts(scene), ACCOUNT).await;
    one(Api::<ClusterRole>::all(scene.member1.client()), &role).await;
    one(
        Api::<ClusterRoleBinding>::all(scene.member1.client()),
        &role,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_control_planes_share_a_member_and_neither_cuts_the_other_off() {
    let scene = Scene::start().await;
    let other = scene.other_control_plane().await;
    scene.says(JOIN).await;
    let ours = way_in(&scene, &scene.control_plane).await;
    let own = format!("{ACCOUNT}-{}", id_of(&other).await);
    let created = format!("member1: ServiceAccount karmada-cluster/{own} created");
    let said = scene.says(&format!("{JOIN} {OTHER} --dry-run")).await;
    assert!(
        said.contains(STAYS) && said.contains(&format!("{created} (dry run)\n")),
        "{said}"
    );
    let said = scene.says(&format!("{JOIN} {OTHER}")).await;
    assert!(
        said.contains(STAYS) && said.contains(&format!("{created}\n")),
        "{said}"
    );
    let theirs = way_in(&scene, &other).await;
    assert!(works(&ours).await && works(&theirs).await);
    // Doing it again makes no third one.
    scene.says(&format!("{JOIN} {OTHER}")).await;
    scene.says(JOIN).await;
    let ours = way_in(&scene, &scene.control_plane).await;
    assert_eq!(
        names_of_accounts(&scene).await,
        ["karmada-impersonator", ACCOUNT, &own]
    );

    let said = scene.says(&format!("{UNJOIN} {OTHER} --dry-run")).await;
    let deleted = format!("member1: ServiceAccount {own} deleted (dry run)\n");
    assert!(said.contains(STAYS) && said.contains(&deleted), "{said}");
    let namespace = "member1: Namespace karmada-cluster stays: another control plane uses it\n";
    assert!(said.contains(namespace), "{said}");
    assert!(works(&theirs).await);
    let said = scene.says(&format!("{UNJOIN} {OTHER}")).await;
    assert!(said.contains(STAYS) && said.contains(namespace), "{said}");
    assert!(works(&ours).await, "the other one is as before");
    assert!(
        !works(&theirs).await,
        "the one that left has no way in any more"
    );

    let said = scene.says(UNJOIN).await;
    assert!(
        said.contains("member1: Namespace karmada-cluster deleted\n"),
        "{said}"
    );
    assert!(!works(&ours).await);
    other.shutdown().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_one_may_leave_first() {
    let scene = Scene::start().await;
    let other = scene.other_control_plane().await;
    scene.says(JOIN).await;
    scene.says(&format!("{JOIN} {OTHER}")).await;
    let said = scene.says(UNJOIN).await;
    assert!(
        said.contains(&format!("member1: ServiceAccount {ACCOUNT} deleted\n")),
        "{said}"
    );
    let theirs = way_in(&scene, &other).await;
    assert!(works(&theirs).await, "the other one is as before");
    let said = scene.says(&format!("{UNJOIN} {OTHER}")).await;
    assert!(
        said.contains("member1: Namespace karmada-cluster deleted\n"),
        "{said}"
    );
    other.shutdown().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_without_a_mark_belongs_to_whoever_has_its_token() {
    let scene = Scene::start().await;
    let other = scene.other_control_plane().await;
    scene.says(JOIN).await;
    unmark(&scene).await;
    let said = scene.says(&format!("{JOIN} {OTHER}")).await;
    assert!(said.contains(UNKNOWN), "{said}");
    let said = scene.says(&format!("{UNJOIN} {OTHER}")).await;
    assert!(said.contains(UNKNOWN), "{said}");
    let ours = way_in(&scene, &scene.control_plane).await;
    assert!(works(&ours).await, "the other one is as before");
    // Joining again marks what is ours.
    scene.says(JOIN).await;
    let account = accounts(&scene).get(ACCOUNT).await.unwrap();
    let id = id_of(&scene.control_plane).await;
    assert_eq!(account.labels().get(LABEL), Some(&id));
    unmark(&scene).await;
    let said = scene.says(UNJOIN).await;
    assert!(
        said.contains("member1: Namespace karmada-cluster deleted\n"),
        "{said}"
    );
    let clusters: Api<Cluster> = Api::all(other.client());
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    other.shutdown().await;
    scene.stop().await;
}
