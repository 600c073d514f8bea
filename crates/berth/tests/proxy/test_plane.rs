//! The setup of a test: an in-process `berth up`, and clients that authenticate with different tokens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth::up::{ControlPlane, UpArgs};
use berth_apiserver::Server;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

/// Timeout of each wait. It is long because the machine runs other tests at the same time.
const TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct TestPlane {
    pub(crate) control_plane: ControlPlane,
    folder: tempfile::TempDir,
}

/// A response with its complete body.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl TestResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the code, the reason and the message of a response that is a Status.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let status = self.json();
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        (self.code.as_u16(), text("reason"), text("message"))
    }
}

impl TestPlane {
    pub(crate) async fn start(members: usize) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let arguments = UpArgs {
            port: 0,
            members,
            ..UpArgs::default()
        };
        let control_plane = ControlPlane::start(&arguments).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let plane = Self {
            control_plane,
            folder,
        };
        std::fs::write(plane.kubeconfig(), plane.control_plane.kubeconfig()).unwrap();
        for member in plane.control_plane.members() {
            let rights = format!("{}/api", proxy(member.name()));
            plane.until_code(&plane.admin(), &rights, 200).await;
        }
        plane
    }

    /// Returns the path of a kubeconfig for the control plane and its members.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn server(&self) -> &Server {
        self.control_plane.server()
    }

    /// Returns a client of the control plane with the administrator's token.
    pub(crate) fn admin(&self) -> Client {
        client(&self.server().url(), self.server().token())
    }

    /// Returns a client of a member. The client sends its requests to the proxy in the control plane.
    pub(crate) fn through(&self, member: &str) -> Client {
        let url = format!("{}{}", self.server().url(), proxy(member));
        client(&url, self.server().token())
    }

    /// Creates a ServiceAccount, and returns a client that authenticates with its token.
    pub(crate) async fn account(&self, namespace: &str, name: &str) -> Client {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let account = json!({ "metadata": { "name": name } });
        self.create(&self.admin(), &accounts, &account).await;
        let request = format!("{accounts}/{name}/token");
        let issued = self.create(&self.admin(), &request, &json!({})).await;
        client(
            &self.server().url(),
            issued["status"]["token"].as_str().unwrap(),
        )
    }

    pub(crate) async fn create(&self, client: &Client, path: &str, object: &Value) -> Value {
        let response = request(client, Method::POST, path, &object.to_string()).await;
        assert_eq!(response.code, 201, "{path}: {}", response.text);
        response.json()
    }

    /// Creates a ClusterRole with a rule, and binds the ClusterRole to a subject.
    pub(crate) async fn grant(&self, client: &Client, name: &str, rule: Value, subject: Value) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let cluster_role = json!({ "metadata": { "name": name }, "rules": [rule] });
        self.create(client, &format!("{rbac}/clusterroles"), &cluster_role)
            .await;
        let binding = json!({ "metadata": { "name": name }, "subjects": [subject],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name } });
        let bindings = format!("{rbac}/clusterrolebindings");
        self.create(client, &bindings, &binding).await;
    }

    /// Repeats a GET request until the response has a status code.
    pub(crate) async fn until_code(&self, client: &Client, path: &str, code: u16) -> TestResponse {
        let end = Instant::now() + TIMEOUT;
        loop {
            let response = request(client, Method::GET, path, "").await;
            if response.code == code {
                return response;
            }
            assert!(Instant::now() < end, "no {code} of {path}: {response:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns the path at which the control plane forwards requests to a member.
pub(crate) fn proxy(member: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy")
}

pub(crate) fn client(url: &str, token: &str) -> Client {
    let mut config = Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    // Tests check error responses, so the client must not retry them.
    config.default_retry = false;
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config).unwrap()
}

/// Sends a request, and returns the response. The body of the response is a stream.
pub(crate) async fn send(client: &Client, request: Request<Vec<u8>>) -> Response<Body> {
    let request = request.map(Body::from);
    tokio::time::timeout(TIMEOUT, client.send(request))
        .await
        .unwrap()
        .unwrap()
}

pub(crate) async fn request(
    client: &Client,
    method: Method,
    path: &str,
    body: &str,
) -> TestResponse {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.as_bytes().to_vec());
    read_body(send(client, request.unwrap()).await).await
}

pub(crate) async fn read_body(response: Response<Body>) -> TestResponse {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    TestResponse {
        code: parts.status,
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}
