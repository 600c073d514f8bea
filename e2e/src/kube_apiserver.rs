//! A kube-apiserver with etcd, started from a folder of programs as in envtest.
//!
//! Each test starts its own kube-apiserver and etcd. The new server has no CustomResourceDefinitions of Karmada.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use crate::bootstrap::client_of;

/// Time limit until a server is ready. The limit is long because other tests may start servers at the same time.
const TIMEOUT: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(50);
/// Maximum number of attempts to start a server. An attempt fails if another process takes one of the chosen free
/// ports.
const ATTEMPTS: usize = 3;
/// Number of log lines shown when a server does not start.
const TAIL: usize = 15;

/// A running kube-apiserver with its etcd. Both processes are killed when this value is dropped.
#[derive(Debug)]
pub struct KubeApiserver {
    kubeconfig: PathBuf,
    url: String,
    /// The process of kube-apiserver. The field precedes `etcd`, so that kube-apiserver is stopped before etcd.
    apiserver: Process,
    etcd: Process,
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
        let etcd = Process::start(
            Command::new(assets.join("etcd")).args([
                "--name=e2e",
                &format!("--data-dir={}", data.display()),
                &format!("--listen-client-urls={etcd_url}"),
                &format!("--advertise-client-urls={etcd_url}"),
                &format!("--listen-peer-urls={peer_url}"),
                &format!("--initial-advertise-peer-urls={peer_url}"),
                &format!("--initial-cluster=e2e={peer_url}"),
                "--unsafe-no-fsync",
            ]),
            folder.join("etcd.log"),
        )?;
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
        let apiserver = Process::start(
            Command::new(assets.join("kube-apiserver"))
                .args(flags)
                .args([
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
            folder.join("kube-apiserver.log"),
        )?;
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
            self.etcd.check_running()?;
            self.apiserver.check_running()?;
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

/// A running process that logs to a file. The process is killed when this value is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(command: &mut Command, log: PathBuf) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{command:?}: {error}");
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = child.spawn();
        let child = child.map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Self { child, log })
    }

    /// Returns an error if the process has exited.
    fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the process ended with {status}\n{}", self.tail())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the path and the last lines of the log.
    fn tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(TAIL);
        format!("{}:\n{}", self.log.display(), lines[last..].join("\n"))
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
