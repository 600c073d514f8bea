//! Tests of the access to metrics and to the configuration of running components.

use berth_e2e::Program;
use berth_e2e::bare_control_plane::BareControlPlane;
use berth_e2e::eventually;
use http::Request;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use kube::config::AuthInfo;
use serde_json::json;

use crate::process;

/// Creates a service account, and returns a token of this account.
pub(crate) async fn token(bare: &BareControlPlane, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(bare.client.clone(), "default");
    let account = json!({ "metadata": { "name": name } });
    let account = serde_json::from_value(account).unwrap();
    let parameters = PostParams::default();
    accounts.create(&parameters, &account).await.unwrap();
    let request: TokenRequest =
        serde_json::from_value(json!({ "spec": { "audiences": [] } })).unwrap();
    let issued = accounts.create_token_request(name, &parameters, &request);
    issued.await.unwrap().status.unwrap().token.unwrap()
}

/// Permits a service account to read a path. Prometheus needs this permission for the path of the metrics.
pub(crate) async fn allow(bare: &BareControlPlane, name: &str, path: &str) {
    let parameters = PostParams::default();
    let role = json!({ "metadata": { "name": "metrics-reader" },
        "rules": [{ "nonResourceURLs": [path], "verbs": ["get"] }] });
    let roles: Api<ClusterRole> = Api::all(bare.client.clone());
    let role = serde_json::from_value(role).unwrap();
    roles.create(&parameters, &role).await.unwrap();
    let binding = json!({ "metadata": { "name": "metrics-reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": name }] });
    let bindings: Api<ClusterRoleBinding> = Api::all(bare.client.clone());
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&parameters, &binding).await.unwrap();
}

/// Waits for the log lines with the address of the probes and the address of the metrics. Returns both addresses.
pub(crate) async fn addresses(program: &Program) -> (String, String) {
    eventually("both addresses in the log", async || {
        let log = program.log();
        let mut addresses = log.lines().filter_map(|line| {
            let (_, address) = line.split_once("serving health and metrics")?;
            address.trim().strip_prefix("address=").map(str::to_owned)
        });
        match (addresses.next(), addresses.next()) {
            (Some(probes), Some(metrics)) => Ok((probes, metrics)),
            _ => Err(log),
        }
    })
    .await
}

/// Sends a GET request with a token. Returns the status code and the body of the response.
pub(crate) async fn get(url: &str, token: Option<&str>) -> (u16, String) {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let server = format!("{scheme}://{host}");
    let mut config = kube::Config::new(server.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo {
        token: token.map(|token| token.to_owned().into()),
        ..AuthInfo::default()
    };
    let client = kube::Client::try_from(config).unwrap();
    let request = Request::get(format!("/{path}")).body(kube::client::Body::empty());
    let response = client.send(request.unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// With `--metrics-secure`, the user of the token needs the permission to read the path. The address of the probes does
/// not serve metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secure_metrics_need_a_token_with_permission() {
    let bare = BareControlPlane::start(&[]).await;
    let (reader, stranger) = (token(&bare, "reader").await, token(&bare, "stranger").await);
    allow(&bare, "reader", "/metrics").await;
    for component in ["karmada-scheduler", "karmada-controller-manager"] {
        let arguments = [
            "--metrics-secure",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
        ];
        let program = process::start_as(component, bare.folder(), &bare.kubeconfig(), &arguments);
        let (probes, metrics) = addresses(&program).await;
        let secure = format!("https://{metrics}/metrics");
        let (status, text) = get(&secure, Some(&reader)).await;
        assert_eq!(status, 200, "{component}: {text}");
        assert!(text.contains("karmada_build_info{"), "{component}: {text}");
        for (token, expected) in [
            (None, 401),
            (Some("no token of this cluster"), 401),
            (Some(stranger.as_str()), 403),
        ] {
            let (status, text) = get(&secure, token).await;
            assert_eq!(status, expected, "{component}, {token:?}: {text}");
            assert!(!text.contains("karmada_build_info"), "{component}: {text}");
        }
        // The permission for one path does not include another path.
        let configuration = format!("https://{metrics}/configz");
        assert_eq!(
            get(&configuration, Some(&reader)).await.0,
            403,
            "{component}"
        );
        let (status, _) = get(&format!("http://{probes}/healthz"), None).await;
        assert_eq!(status, 200, "{component}");
        let (status, _) = get(&format!("http://{probes}/metrics"), None).await;
        assert_eq!(status, 404, "{component}: the probe address serves metrics");
    }
    bare.stop().await;
}

/// Without `--metrics-secure`, metrics need no token, and requests from this machine can read the configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_metrics_secure_local_requests_need_no_token() {
    let bare = BareControlPlane::start(&[]).await;
    let arguments = [
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let (_, metrics) = addresses(&program).await;
    let (status, text) = get(&format!("http://{metrics}/metrics"), None).await;
    assert_eq!(status, 200, "{text}");
    let (status, text) = get(&format!("http://{metrics}/configz"), None).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("default-scheduler"), "{text}");
    bare.stop().await;
}
