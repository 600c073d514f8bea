//! The API server that the tests of this process share: a kube-apiserver with etcd if the test environment has one, and
//! otherwise the embedded server. Each test uses its own namespaces and names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use berth_apiserver::{Server, ServerConfig};
use berth_e2e::{KubeApiserver, kubectl};
use http::{Request, Response};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::client_certificates;
use crate::harness::content_type::JSON;

/// The editor command for `kubectl edit`. The command sets the replicas to seven.
const EDITOR: &str = "sed -i \"s/replicas:.*/replicas: 7/\"";

/// The name of the ConfigMap that the embedded server creates in each namespace.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

/// A handle of a server for one test. The server stops when the last handle is dropped.
pub(crate) struct TestServer {
    /// A client of the administrator. Only the test that created the client may use it, because the client needs the
    /// runtime of this test.
    pub(crate) client: Client,
    shared: Arc<Shared>,
}

/// A running server and its files. Either `kube_apiserver` or `embedded` is set.
struct Shared {
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    kube_apiserver: Option<KubeApiserver>,
    embedded: Option<(Server, Runtime)>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some((server, runtime)) = self.embedded.take() {
            drop(server);
            // Do not wait for the runtime: this code may run in the runtime of a test, where blocking panics.
            runtime.shutdown_background();
        }
        drop(self.kube_apiserver.take());
    }
}

/// The shared server, while a test uses it.
static RUNNING: tokio::sync::Mutex<Weak<Shared>> = tokio::sync::Mutex::const_new(Weak::new());

/// Returns the shared server. Starts it if no other test uses it.
pub(crate) async fn server() -> TestServer {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shared = {
        let mut running = RUNNING.lock().await;
        if let Some(shared) = running.upgrade() {
            shared
        } else {
            let shared = Arc::new(start(&[]).await);
            *running = Arc::downgrade(&shared);
            shared
        }
    };
    let client = client_of(config(&shared.kubeconfig).await);
    TestServer { client, shared }
}

/// Starts a server for a single test. A kube-apiserver compacts versions that are older than a second or two, so that
/// watches from these versions expire.
pub(crate) async fn with_short_history() -> TestServer {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let flag = "--etcd-compaction-interval=1s".to_owned();
    let shared = Arc::new(start(&[flag]).await);
    let client = client_of(config(&shared.kubeconfig).await);
    TestServer { client, shared }
}

/// Starts a kube-apiserver and an embedded server. The test needs `#[needs(apiserver)]`.
pub(crate) async fn kube_apiserver_and_embedded() -> [TestServer; 2] {
    let assets = KubeApiserver::assets().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let served = async |shared: Shared| TestServer {
        client: client_of(config(&shared.kubeconfig).await),
        shared: Arc::new(shared),
    };
    [
        served(start_kube_apiserver(&assets, &[]).await).await,
        served(start_embedded().await).await,
    ]
}

async fn start(flags: &[String]) -> Shared {
    match KubeApiserver::assets() {
        Some(assets) => start_kube_apiserver(&assets, flags).await,
        None => start_embedded().await,
    }
}

async fn start_kube_apiserver(assets: &Path, flags: &[String]) -> Shared {
    let folder = tempfile::tempdir().unwrap();
    let mut flags = flags.to_vec();
    flags.push(format!(
        "--client-ca-file={}",
        client_certificates::create_authority(&folder.path().join("credentials")).display()
    ));
    let server = KubeApiserver::start_with(assets, folder.path(), &flags).await;
    Shared {
        kubeconfig: folder.path().join("kubeconfig"),
        folder,
        kube_apiserver: Some(server),
        embedded: None,
    }
}

async fn start_embedded() -> Shared {
    let folder = tempfile::tempdir().unwrap();
    // The server needs a separate runtime, because the runtime of a test ends before the other tests.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let started = runtime.spawn(Server::start(ServerConfig {
        credentials: Some(folder.path().join("credentials")),
        ..ServerConfig::default()
    }));
    let server = started.await.unwrap().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig("shared")).unwrap();
    Shared {
        kubeconfig,
        folder,
        kube_apiserver: None,
        embedded: Some((server, runtime)),
    }
}

async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap()
}

pub(crate) fn client_of(config: Config) -> Client {
    Client::try_from(config).unwrap()
}

/// A response with its whole body.
#[allow(dead_code, reason = "each module looks at what it needs")]
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
    /// The parsed body, or null if the body is not JSON.
    pub(crate) json: Value,
}

impl ApiResponse {
    /// Returns the field and the reason of each cause in the response, sorted and without duplicates.
    pub(crate) fn causes(&self) -> Vec<String> {
        let causes = self.json["details"]["causes"].as_array();
        let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let causes: std::collections::BTreeSet<String> = causes
            .into_iter()
            .flatten()
            .map(|cause| format!("{} {}", text(cause, "field"), text(cause, "reason")))
            .collect();
        causes.into_iter().collect()
    }
}

#[allow(dead_code, reason = "each module uses what it needs")]
impl TestServer {
    /// Returns the path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.shared.kubeconfig
    }

    /// Reports whether this is kube-apiserver.
    pub(crate) fn is_kube_apiserver(&self) -> bool {
        self.shared.kube_apiserver.is_some()
    }

    /// Returns the administrator's client configuration.
    pub(crate) async fn config(&self) -> Config {
        config(&self.shared.kubeconfig).await
    }

    /// Returns the folder of the certificate authority that signs client certificates.
    pub(crate) fn credentials(&self) -> PathBuf {
        self.shared.folder.path().join("credentials")
    }

    /// Returns a client whose only credential is this token.
    pub(crate) async fn with_token(&self, token: Option<&str>) -> Client {
        let mut config = self.config().await;
        config.auth_info.token = token.map(|t| t.to_owned().into());
        client_of(config)
    }

    /// Returns another handle of this server, whose client sends each request once.
    pub(crate) async fn without_retries(&self) -> Self {
        let mut config = self.config().await;
        config.default_retry = false;
        Self {
            client: client_of(config),
            shared: self.shared.clone(),
        }
    }

    /// Creates a namespace with a unique name, and returns the name.
    pub(crate) async fn namespace(&self) -> String {
        let name = format!("t-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::<Namespace>::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        if !self.is_kube_apiserver() {
            // Wait for this ConfigMap, so that it does not appear during the lists and watches of the test.
            let map = format!("/api/v1/namespaces/{name}/configmaps/{ROOT_CA}");
            berth_e2e::eventually("the certificate of the authority", async || {
                match self.raw("GET", &map, &[], "").await {
                    response if response.code == 200 => Ok(()),
                    response => Err(response.text),
                }
            })
            .await;
        }
        name
    }

    /// Returns the number of ConfigMaps in a new namespace: one on the embedded server, and none on kube-apiserver.
    pub(crate) fn initial_maps(&self) -> usize {
        usize::from(!self.is_kube_apiserver())
    }

    /// Creates an object in the collection at `path`, and returns the created object.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        let created = self.raw("POST", path, &[JSON], object.to_string()).await;
        assert_eq!(created.code, 201, "{}", created.text);
        created.json
    }

    /// Sends a request as the administrator, with these headers.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> ApiResponse {
        raw(&self.client, method, path, headers, body).await
    }

    /// Runs kubectl. The test needs `#[needs(kubectl)]`.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> std::process::Output {
        let (kubeconfig, cache) = (
            self.shared.kubeconfig.clone(),
            self.shared.folder.path().join("cache"),
        );
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            kubectl::run_with_editor(&kubeconfig, &cache, EDITOR, &arguments).unwrap()
        })
        .await
        .unwrap()
    }
}

/// Sends a request, and reads the whole response.
pub(crate) async fn raw(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> ApiResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.into())).unwrap();
    let response: Response<Body> = client.send(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = http_body_util::BodyExt::collect(body)
        .await
        .unwrap()
        .to_bytes();
    ApiResponse {
        code: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
        json: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}
