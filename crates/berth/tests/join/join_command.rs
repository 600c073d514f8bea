//! Tests of `berth join`.

use berth_test_transcripts::assert_snapshot;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::test_servers::{TestServers, entry};

const JOIN: &str = "join member1 --cluster-kubeconfig member1.kubeconfig";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_writes_nothing() {
    let servers = TestServers::start().await;
    servers.run(&format!("{JOIN} --dry-run")).await;
    assert!(
        servers
            .clusters()
            .get_opt("member1")
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        servers
            .secrets()
            .get_opt("member1")
            .await
            .unwrap()
            .is_none()
    );
    let namespaces: Api<Namespace> = Api::all(servers.member1.client());
    let namespace = namespaces.get_opt("karmada-cluster").await.unwrap();
    assert!(namespace.is_none());
    assert_snapshot!(servers.session());
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_creates_cluster_secrets_and_accounts() {
    let servers = TestServers::start().await;
    servers
        .run(&format!(
            "{JOIN} --cluster-provider p --cluster-region r --cluster-zones z1,z2"
        ))
        .await;
    // The controllers connect to a new Cluster at once, so its Secrets are created before it.
    assert_snapshot!(servers.session());
    let cluster = servers.clusters().get("member1").await.unwrap();
    let namespaces: Api<Namespace> = Api::all(servers.member1.client());
    let id = namespaces.get("kube-system").await.unwrap().metadata.uid;
    let spec = serde_json::to_value(&cluster.spec).unwrap();
    let secret = |name: &str| json!({ "namespace": "karmada-cluster", "name": name });
    assert_eq!(
        spec,
        json!({
            "id": id, "syncMode": "Push", "apiEndpoint": servers.member1.url(),
            "secretRef": secret("member1"), "impersonatorSecretRef": secret("member1-impersonator"),
            "provider": "p", "region": "r", "zones": ["z1", "z2"],
        })
    );

    // The control plane uses ServiceAccounts that `berth join` has created in the member.
    let secret = servers.secrets().get("member1").await.unwrap();
    let keys: Vec<_> = secret.data.as_ref().unwrap().keys().collect();
    assert_eq!(keys, ["caBundle", "token"]);
    assert_eq!(
        entry(&secret, "caBundle").trim(),
        servers.member1.ca_pem().trim()
    );
    let owners = secret.metadata.owner_references.as_ref().unwrap();
    assert_eq!(
        (&*owners[0].kind, Some(&owners[0].uid)),
        ("Cluster", cluster.metadata.uid.as_ref())
    );
    let impersonator = servers.secrets().get("member1-impersonator").await.unwrap();
    let keys: Vec<_> = impersonator.data.as_ref().unwrap().keys().collect();
    assert_eq!(keys, ["token"]);
    let (own, other) = (entry(&secret, "token"), entry(&impersonator, "token"));
    for token in [&own, &other] {
        assert_ne!(
            token,
            servers.member1.token(),
            "the control plane stores the administrator's token"
        );
    }
    let listed = async |token: &str| {
        let client = TestServers::with_token(&servers.member1, token).await;
        let namespaces: Api<Namespace> = Api::all(client);
        namespaces.list(&ListParams::default()).await
    };
    assert!(listed(&own).await.is_ok());
    let refused = listed(&other).await.unwrap_err().to_string();
    let user = "system:serviceaccount:karmada-cluster:karmada-impersonator";
    assert!(
        refused.contains(&format!("User \"{user}\" cannot list")),
        "{refused}"
    );
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_again_renews_tokens_and_restores_rights() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let before = entry(&servers.secrets().get("member1").await.unwrap(), "token");
    let role = "karmada-controller-manager:karmada-member1";
    let bindings: Api<ClusterRoleBinding> = Api::all(servers.member1.client());
    bindings
        .delete(role, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    servers.run(JOIN).await;
    let after = entry(&servers.secrets().get("member1").await.unwrap(), "token");
    assert_ne!(before, after);
    servers.run(&format!("{JOIN} --dry-run")).await;
    assert_snapshot!(servers.session());
    let roles: Api<ClusterRole> = Api::all(servers.member1.client());
    let granted = roles.get(role).await.unwrap().rules.unwrap();
    assert_eq!(
        serde_json::to_value(granted).unwrap(),
        json!([
            { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
            { "nonResourceURLs": ["*"], "verbs": ["get"] },
        ])
    );
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flag_sets_the_endpoint_at_which_the_control_plane_reaches_the_member() {
    let servers = TestServers::start().await;
    let endpoint = "https://member1-control-plane:6443";
    servers
        .run(&format!(
            "{JOIN} --cluster-endpoint {endpoint} --cluster-context member1"
        ))
        .await;
    let cluster = servers.clusters().get("member1").await.unwrap();
    assert_eq!(cluster.spec.api_endpoint.as_deref(), Some(endpoint));
    let accounts: Api<ServiceAccount> =
        Api::namespaced(servers.member1.client(), "karmada-cluster");
    let account = accounts.get("karmada-member1").await.unwrap();
    let labels = account.metadata.labels.unwrap();
    assert_eq!(labels["karmada.io/system"], "true");
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_again_keeps_the_fields_without_a_flag() {
    let servers = TestServers::start().await;
    let endpoint = "https://member1-control-plane:6443";
    servers
        .run(&format!(
            "{JOIN} --cluster-provider p --cluster-region r --cluster-zones z1,z2 --cluster-endpoint {endpoint}"
        ))
        .await;
    let spec = async || {
        let cluster = servers.clusters().get("member1").await.unwrap();
        serde_json::to_value(cluster.spec).unwrap()
    };
    let before = spec().await;
    servers.run(JOIN).await;
    assert_eq!(spec().await, before);
    let changing = format!("{JOIN} --cluster-region eu --cluster-zones=");
    servers.run(&format!("{changing} --dry-run")).await;
    assert_eq!(spec().await, before);
    servers.run(&changing).await;
    assert_snapshot!(servers.session());
    let after = spec().await;
    assert_eq!(
        (&after["provider"], &after["region"], &after["zones"]),
        (&json!("p"), &json!("eu"), &json!(null))
    );
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_being_removed_cannot_join() {
    let servers = TestServers::start().await;
    servers.run(JOIN).await;
    let held =
        Patch::Merge(json!({ "metadata": { "finalizers": ["karmada.io/cluster-controller"] } }));
    let clusters = servers.clusters();
    clusters
        .patch("member1", &PatchParams::default(), &held)
        .await
        .unwrap();
    clusters
        .delete("member1", &DeleteParams::default())
        .await
        .unwrap();
    for name in ["member1", "other"] {
        let join = format!("join {name} --cluster-kubeconfig member1.kubeconfig");
        let result = servers.berth(&join).await;
        assert_eq!(result.code, Some(1), "{result:?}");
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}
