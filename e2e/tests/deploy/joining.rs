//! Tests of `berth join` and `berth unjoin` with a kube-apiserver as the control plane and another kube-apiserver as
//! the new member cluster.

use berth_test_requirements::needs;
use std::process::{Command, Output, Stdio};

use berth_api::Cluster;
use berth_e2e::{KubeApiserver, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::json;

use crate::control_plane::ControlPlane;

/// A cluster to join.
struct NewCluster {
    client: Client,
    /// The server. This field precedes `_folder`, so that the server stops before its folder is removed.
    server: KubeApiserver,
    _folder: tempfile::TempDir,
}

impl NewCluster {
    async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let assets = KubeApiserver::assets().unwrap();
        let server = KubeApiserver::start_with(&assets, folder.path(), &flags).await;
        Self {
            client: server.client().await,
            server,
            _folder: folder,
        }
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), "karmada-cluster")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "karmada-cluster")
    }

    /// Waits for the token Secret of an account, and stores a token in it, as kube-controller-manager does. Returns the
    /// token.
    async fn fill_token_secret(&self, account: &str) -> String {
        eventually(&format!("the Secret of {account}"), async || {
            let secret = self.secrets().get(account).await;
            let secret = secret.map_err(|error| error.to_string())?;
            let annotations = secret.metadata.annotations.unwrap_or_default();
            assert_eq!(annotations["kubernetes.io/service-account.name"], account);
            assert_eq!(
                secret.type_.as_deref(),
                Some("kubernetes.io/service-account-token")
            );
            Ok::<_, String>(())
        })
        .await;
        let request = TokenRequest {
            spec: Some(TokenRequestSpec::default()),
            ..TokenRequest::default()
        };
        let parameters = PostParams::default();
        let accounts = self.accounts();
        let issued = accounts.create_token_request(account, &parameters, &request);
        let token = issued.await.unwrap().status.unwrap().token.unwrap();
        let data = json!({ "data": { "token": ByteString(token.clone().into_bytes()) } });
        let patch = Patch::Merge(data);
        let secrets = self.secrets();
        secrets
            .patch(account, &PatchParams::default(), &patch)
            .await
            .unwrap();
        token
    }
}

/// Starts `berth` with the kubeconfigs of the control plane and of the cluster.
fn berth(
    plane: &ControlPlane,
    new_cluster: &NewCluster,
    arguments: &str,
) -> tokio::task::JoinHandle<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-program"));
    command
        .args(arguments.split(' '))
        .arg("--cluster-kubeconfig")
        .arg(new_cluster.server.kubeconfig())
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap())
}

/// Waits until the process exits with success, and returns its output.
async fn output_of(running: tokio::task::JoinHandle<Output>) -> String {
    let output = running.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the token of a member from a Secret in the control plane. The returned `bool` is true if the member permits
/// this token to read a namespace.
async fn token_of(plane: &ControlPlane, new_cluster: &NewCluster, secret: &str) -> (String, bool) {
    let secrets: Api<Secret> = Api::namespaced(plane.client.clone(), "karmada-cluster");
    let data = secrets.get(secret).await.unwrap().data.unwrap();
    let token = String::from_utf8(data["token"].0.clone()).unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(new_cluster.server.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.clone().into()),
        ..kube::config::AuthInfo::default()
    };
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
    let accepted = namespaces.get("kube-system").await.is_ok();
    (token, accepted)
}

/// Checks that `berth join` stores a token that the new member has issued, and that `berth unjoin` deletes the Cluster
/// and the account in the member.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_joins_with_tokens_that_it_issues_and_unjoins() {
    let plane = ControlPlane::start(&[]).await;
    let new_cluster = NewCluster::start(&[]).await;
    let output = output_of(berth(&plane, &new_cluster, "join member1")).await;
    assert!(output.ends_with("member1 is a member\n"), "{output}");
    let (_, accepted) = token_of(&plane, &new_cluster, "member1").await;
    assert!(accepted);
    assert!(
        new_cluster
            .secrets()
            .get_opt("karmada-member1")
            .await
            .unwrap()
            .is_none()
    );
    let clusters: Api<Cluster> = Api::all(plane.client.clone());
    let cluster = clusters.get("member1").await.unwrap();
    let client = berth_controllers::member_client::connect(&plane.client, &cluster)
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "karmada-cluster");
    assert!(accounts.get("karmada-impersonator").await.is_ok());
    let output = output_of(berth(&plane, &new_cluster, "unjoin member1")).await;
    assert!(
        output.ends_with("member1 is no longer a member\n"),
        "{output}"
    );
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    let left = new_cluster
        .accounts()
        .get_opt("karmada-member1")
        .await
        .unwrap();
    assert!(left.is_none());
}

/// Checks that `berth join` uses token Secrets if the new member limits the lifetime of issued tokens, that a second
/// join succeeds, and that `berth unjoin` deletes the Secrets.
#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_short_lived_tokens_joins_with_token_secrets() {
    let plane = ControlPlane::start(&[]).await;
    let new_cluster = NewCluster::start(&["--service-account-max-token-expiration=24h"]).await;
    let joining = berth(&plane, &new_cluster, "join member1");
    let own = new_cluster.fill_token_secret("karmada-member1").await;
    let other = new_cluster.fill_token_secret("karmada-impersonator").await;
    output_of(joining).await;
    assert_eq!(token_of(&plane, &new_cluster, "member1").await, (own, true));
    let impersonator = token_of(&plane, &new_cluster, "member1-impersonator").await;
    assert_eq!(impersonator, (other, false));
    // A second join reuses the existing Secrets.
    output_of(berth(&plane, &new_cluster, "join member1")).await;
    output_of(berth(&plane, &new_cluster, "unjoin member1")).await;
    for account in ["karmada-member1", "karmada-impersonator"] {
        assert!(
            new_cluster
                .secrets()
                .get_opt(account)
                .await
                .unwrap()
                .is_none(),
            "{account}"
        );
    }
}
