//! A kube-apiserver with etcd, started from a folder of programs as in envtest.
//!
//! Each test starts its own kube-apiserver and etcd. The new server has no CustomResourceDefinitions of Karmada.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use crate::bootstrap::client_of;
use crate::kubectl;
use crate::program::{Program, command};

/// Time limit until a server is ready. The limit is long because other tests may start servers at the same time.
const TIMEOUT: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(50);
/// Maximum number of attempts to start a server. An attempt fails if another process takes one of the chosen free
/// ports.
const ATTEMPTS: usize = 3;

/// A running kube-apiserver with its etcd. Both processes are killed when this value is dropped.
#[derive(Debug)]
pub struct KubeApiserver {
    kubeconfig: PathBuf,
    url: String,
    /// The process of kube-apiserver. The field precedes `etcd`, so that kube-apiserver is stopped before etcd.
    apiserver: Program,
    etcd: Program,
}

#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
impl KubeApiserver {
    /// Returns the folder of programs from `KUBEBUILDER_ASSETS`, or `None` if this variable is not set.
    pub fn assets() -> Option<PathBuf> {
        std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from)
    }

    /// Starts kube-apiserver and etcd on free ports. Writes the logs of both, and a kubeconfig with all rights, to
    /// `folder`.
    ///
    /// # Panics
    /// If a process does not start or does not become ready. The message contains the last lines of its log.
    pub async fn start(assets: &Path, folder: &Path) -> Self {
        Self::start_with(assets, folder, &[]).await
    }

    /// Starts kube-apiserver and etcd as [`Self::start`] does, with additional flags for kube-apiserver.
    ///
    /// # Panics
    /// If a process does not start or does not become ready. The message contains the last lines of its log.
    pub async fn start_with(assets: &Path, folder: &Path, flags: &[String]) -> Self {
        for _ in 1..ATTEMPTS {
            if let Ok(server) = Self::attempt(assets, folder, flags).await {
                return server;
            }
        }
        match Self::attempt(assets, folder, flags).await {
            Ok(server) => server,
            Err(reason) => panic!("the real kube-apiserver does not start: {reason}"),
        }
    }

    async fn attempt(assets: &Path, folder: &Path, flags: &[String]) -> Result<Self, String> {
        let [etcd_port, peer_port, port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let data = folder.join("etcd");
        let _ = std::fs::remove_dir_all(&data);
        let etcd = Program::start(
            command(assets.join("etcd")).args([
                "--name=e2e",
                &format!("--data-dir={}", data.display()),
                &format!("--listen-client-urls={etcd_url}"),
                &format!("--advertise-client-urls={etcd_url}"),
                &format!("--listen-peer-urls={peer_url}"),
                &format!("--initial-advertise-peer-urls={peer_url}"),
                &format!("--initial-cluster=e2e={peer_url}"),
                "--unsafe-no-fsync",
            ]),
            &folder.join("etcd.log"),
        );
        let token = uuid::Uuid::new_v4().to_string();
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, format!("{token},admin,admin,system:masters\n")).unwrap();
        // The key pair for service account tokens. The public key needs a separate file: kube-apiserver cannot read it
        // from a PKCS #8 file with a private key of this type.
        let (key, public) = (folder.join("sa.key"), folder.join("sa.pub"));
        let pair = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        std::fs::write(&public, pair.public_key_pem()).unwrap();
        let certificates = folder.join("certs");
        let apiserver = Program::start(
            command(assets.join("kube-apiserver")).args(flags).args([
                &format!("--etcd-servers={etcd_url}"),
                &format!("--secure-port={port}"),
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                &format!("--cert-dir={}", certificates.display()),
                &format!("--token-auth-file={}", tokens.display()),
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.96.0.0/12",
                &format!("--service-account-key-file={}", public.display()),
                &format!("--service-account-signing-key-file={}", key.display()),
                "--service-account-issuer=https://kubernetes.default.svc",
                "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
            ]),
            &folder.join("kube-apiserver.log"),
        );
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = folder.join("kubeconfig");
        // kube-apiserver writes its certificate and the certificate of the signing CA to this file.
        let authority = certificates.join("apiserver.crt");
        std::fs::write(&kubeconfig, kubeconfig_text(&url, &authority, &token)).unwrap();
        let mut server = Self {
            kubeconfig,
            url,
            apiserver,
            etcd,
        };
        server.ready(&authority).await?;
        Ok(server)
    }

    async fn ready(&mut self, authority: &Path) -> Result<(), String> {
        let end = Instant::now() + TIMEOUT;
        loop {
            check_running(&mut self.etcd)?;
            check_running(&mut self.apiserver)?;
            let result = if authority.exists() {
                check_ready(&client_of(&self.kubeconfig).await).await
            } else {
                Err("kube-apiserver has no certificate yet".to_owned())
            };
            match result {
                Ok(()) => return Ok(()),
                Err(reason) if Instant::now() >= end => {
                    return Err(format!("not ready: {reason}\n{}", self.apiserver.tail()));
                }
                Err(_) => tokio::time::sleep(STEP).await,
            }
        }
    }

    /// Returns a client with all rights.
    pub async fn client(&self) -> Client {
        client_of(&self.kubeconfig).await
    }

    /// Returns the path of a kubeconfig with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the server's URL, `https://…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs kubectl as the administrator, and returns its output.
    ///
    /// # Panics
    /// If kubectl fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let cache = self.kubeconfig.with_file_name("cache");
        let output = kubectl::run(&self.kubeconfig, &cache, arguments).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {}: {errors}",
            arguments.join(" ")
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes a kubeconfig with a token of a service account in `karmada-system`, and returns the path of the file.
    ///
    /// # Panics
    /// If kubectl fails, or the file cannot be written.
    pub fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", account, "-n", "karmada-system"]);
        let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = serde_json::json!({ "token": token.trim() });
        let path = self.kubeconfig.with_file_name(account);
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

/// Checks that the server is ready and has created the default namespace.
async fn check_ready(client: &Client) -> Result<(), String> {
    let ready = http::Request::get("/readyz").body(Vec::new());
    let ready = ready.map_err(|error| error.to_string())?;
    let response = client.request_text(ready).await;
    response.map_err(|error| error.to_string())?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get("default").await;
    found.map(drop).map_err(|error| error.to_string())
}

/// Returns an error if a process has exited.
fn check_running(program: &mut Program) -> Result<(), String> {
    match program.exit_status() {
        None => Ok(()),
        Some(status) => Err(format!(
            "the process ended with {status}\n{}",
            program.tail()
        )),
    }
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn kubeconfig_text(url: &str, authority: &Path, token: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "clusters": [{ "name": "e2e", "cluster": {
            "server": url, "certificate-authority": authority } }],
        "users": [{ "name": "e2e", "user": { "token": token } }],
    })
    .to_string()
}
