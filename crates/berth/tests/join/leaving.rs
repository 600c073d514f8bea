//! `berth unjoin`.

use std::fmt::Debug;

use berth_api::Cluster;
use berth_api::work::Work;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::scene::Scene;

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";
const UNJOIN: &str = "unjoin member1 --cluster-kubeconfig member1.kubeconfig";

/// The names of those that are there, of all that joining makes of a kind.
async fn left<K>(api: &Api<K>, names: &[&str]) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut left = Vec::new();
    for name in names {
        let metadata = api.get_metadata_opt(name).await.unwrap();
        // A namespace that goes takes its time.
        if metadata.is_some_and(|known| known.metadata.deletion_timestamp.is_none()) {
            left.push((*name).to_owned());
        }
    }
    left
}

/// What is left of joining, in both places.
async fn remains(scene: &Scene) -> Vec<String> {
    let member = || scene.member1.client();
    let role = "karmada-controller-manager:karmada-member1";
    let accounts: Api<ServiceAccount> = Api::namespaced(member(), "karmada-cluster");
    let mut all = left::<Cluster>(&scene.clusters(), &["member1"]).await;
    all.extend(left(&scene.secrets(), &["member1", "member1-impersonator"]).await);
    all.extend(left::<ClusterRole>(&Api::all(member()), &[role]).await);
    all.extend(left::<ClusterRoleBinding>(&Api::all(member()), &[role]).await);
    all.extend(left(&accounts, &["karmada-member1", "karmada-impersonator"]).await);
    all.extend(left::<Namespace>(&Api::all(member()), &["karmada-cluster"]).await);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_member_that_leaves() {
    let scene = Scene::start().await;
    scene.says(JOIN).await;
    assert_eq!(remains(&scene).await.len(), 8);
    let said = scene.says(&format!("{UNJOIN} --dry-run")).await;
    assert!(
        said.contains("control plane: Cluster member1 deleted (dry run)\n"),
        "{said}"
    );
    assert!(
        said.ends_with("member1 would be no member any more (dry run: nothing was written)\n"),
        "{said}"
    );
    assert_eq!(remains(&scene).await.len(), 8);
    let said = scene.says(UNJOIN).await;
    assert!(
        said.starts_with("control plane: Cluster member1 deleted\n"),
        "{said}"
    );
    assert!(
        said.ends_with(
            "member1: Namespace karmada-cluster deleted\nmember1 is no member any more\n"
        ),
        "{said}"
    );
    assert_eq!(remains(&scene).await, Vec::<String>::new());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_way_into_the_member_its_side_stays_and_that_is_said() {
    let scene = Scene::start().await;
    scene.says(JOIN).await;
    let said = scene.says("unjoin member1").await;
    let last = "member1 is no member any more; what joining made in it is still there (--cluster-kubeconfig removes it)\n";
    assert!(said.ends_with(last), "{said}");
    assert_eq!(remains(&scene).await.len(), 5);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_control_plane_uses_stays() {
    let scene = Scene::start().await;
    scene.says(JOIN).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.member1.client(), "karmada-cluster");
    let other = json!({ "metadata": { "name": "karmada-elsewhere" } });
    let other = serde_json::from_value(other).unwrap();
    accounts
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let said = scene.says(UNJOIN).await;
    let stays = "member1: Namespace karmada-cluster stays: another control plane uses it\n";
    assert!(said.contains(stays), "{said}");
    assert_eq!(
        remains(&scene).await,
        ["karmada-impersonator", "karmada-cluster"]
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_that_nobody_removes_hold_a_member_until_it_is_forced() {
    let scene = Scene::start().await;
    scene.says(JOIN).await;
    let client = scene.control_plane.client();
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
        let ran = scene.berth("unjoin member1 --wait 0").await;
        assert_eq!(ran.code, Some(1));
        let said =
            "error: member1 is still there after 0 s, held by works in karmada-es-member1 (1 left)";
        assert!(ran.err.starts_with(said), "{}", ran.err);
        let cluster = scene.clusters().get("member1").await.unwrap();
        let finalizers = cluster.metadata.finalizers.unwrap();
        assert_eq!(finalizers, ["members.berth/unjoin"]);
        assert!(cluster.metadata.deletion_timestamp.is_some());
    }
    scene.says("unjoin member1 --wait 0 --force").await;
    let left = scene.clusters().get_opt("member1").await.unwrap();
    assert!(left.is_none());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_held_is_waited_for_and_let_go_by_force() {
    let scene = Scene::start().await;
    scene.says(JOIN).await;
    let held =
        Patch::Merge(json!({ "metadata": { "finalizers": ["karmada.io/cluster-controller"] } }));
    let clusters = scene.clusters();
    clusters
        .patch("member1", &PatchParams::default(), &held)
        .await
        .unwrap();
    let ran = scene.berth("unjoin member1 --wait 0").await;
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.err,
        "error: member1 is still there after 0 s, held by karmada.io/cluster-controller: its controllers remove the workloads first; wait longer with --wait, or --force it\n"
    );
    scene.says("unjoin member1 --wait 0 --force").await;
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    scene.stop().await;
}
