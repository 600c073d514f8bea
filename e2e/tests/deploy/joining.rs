//! `berth join` between real servers.

use berth_test_requirements::needs;
use std::process::{Command, Output, Stdio};

use berth_api::Cluster;
use berth_e2e::{RealServer, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::json;

use crate::place::Place;

/// A cluster that is no member yet.
struct Outsider {
    client: Client,
    /// Ended before its folder goes.
    server: RealServer,
    _folder: tempfile::TempDir,
}

impl Outsider {
    async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let assets = RealServer::assets().unwrap();
        let server = RealServer::start_with(&assets, folder.path(), &flags).await;
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

    /// Fills the Secret of an account, as kube-controller-manager would.
    async fn fills(&self, account: &str) -> String {
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

/// Runs `berth` with the kubeconfigs of both.
fn berth(place: &Place, outsider: &Outsider, words: &str) -> tokio::task::JoinHandle<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-program"));
    command
        .args(words.split(' '))
        .arg("--cluster-kubeconfig")
        .arg(outsider.server.kubeconfig())
        .arg("--kubeconfig")
        .arg(place.kubeconfig())
        .stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap())
}

async fn succeeds(running: tokio::task::JoinHandle<Output>) -> String {
    let output = running.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The token that the control plane has of a member, and whether the member lets it in.
async fn token_of(place: &Place, outsider: &Outsider, secret: &str) -> (String, bool) {
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), "karmada-cluster");
    let data = secrets.get(secret).await.unwrap().data.unwrap();
    let token = String::from_utf8(data["token"].0.clone()).unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(outsider.server.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.clone().into()),
        ..kube::config::AuthInfo::default()
    };
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
    let enters = namespaces.get("kube-system").await.is_ok();
    (token, enters)
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_joins_by_tokens_that_it_issues_and_leaves_again() {
    let place = Place::start(&[]).await;
    let outsider = Outsider::start(&[]).await;
    let join = "join member1";
    let said = succeeds(berth(&place, &outsider, join)).await;
    assert!(said.ends_with("member1 is a member\n"), "{said}");
    let (_, enters) = token_of(&place, &outsider, "member1").await;
    assert!(enters);
    assert!(
        outsider
            .secrets()
            .get_opt("karmada-member1")
            .await
            .unwrap()
            .is_none()
    );
    let clusters: Api<Cluster> = Api::all(place.client.clone());
    let cluster = clusters.get("member1").await.unwrap();
    let client = berth_controllers::member_client::connect(&place.client, &cluster)
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "karmada-cluster");
    assert!(accounts.get("karmada-impersonator").await.is_ok());
    let said = succeeds(berth(&place, &outsider, "unjoin member1")).await;
    assert!(said.ends_with("member1 is no member any more\n"), "{said}");
    assert!(clusters.get_opt("member1").await.unwrap().is_none());
    let left = outsider
        .accounts()
        .get_opt("karmada-member1")
        .await
        .unwrap();
    assert!(left.is_none());
}

#[needs(apiserver, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_tokens_are_short_the_cluster_puts_them_into_secrets() {
    let place = Place::start(&[]).await;
    let outsider = Outsider::start(&["--service-account-max-token-expiration=24h"]).await;
    let joining = berth(&place, &outsider, "join member1");
    let own = outsider.fills("karmada-member1").await;
    let other = outsider.fills("karmada-impersonator").await;
    succeeds(joining).await;
    assert_eq!(token_of(&place, &outsider, "member1").await, (own, true));
    let impersonator = token_of(&place, &outsider, "member1-impersonator").await;
    assert_eq!(impersonator, (other, false));
    // Doing it again finds them.
    succeeds(berth(&place, &outsider, "join member1")).await;
    succeeds(berth(&place, &outsider, "unjoin member1")).await;
    for account in ["karmada-member1", "karmada-impersonator"] {
        assert!(
            outsider.secrets().get_opt(account).await.unwrap().is_none(),
            "{account}"
        );
    }
}
