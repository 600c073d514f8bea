//! A real kube-apiserver with etcd, started from a folder of binaries as envtest does it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::eventually::eventually;
use crate::furnish::client_of;

/// The two processes; they end when this is dropped.
#[derive(Debug)]
pub struct RealServer {
    kubeconfig: PathBuf,
    etcd: Child,
    apiserver: Child,
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
impl RealServer {
    /// Starts both on free ports, and writes a kubeconfig with all rights into the folder.
    ///
    /// # Panics
    /// When they do not start.
    pub async fn start(assets: &Path, folder: &Path) -> Self {
        let kubeconfig = &folder.join("kubeconfig");
        let [etcd_port, peer_port, port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = quiet(Command::new(assets.join("etcd")).args([
            &format!("--data-dir={}", folder.join("etcd").display()),
            &format!("--listen-client-urls={etcd_url}"),
            &format!("--advertise-client-urls={etcd_url}"),
            &format!("--listen-peer-urls={peer_url}"),
            "--unsafe-no-fsync",
        ]));
        let token = uuid::Uuid::new_v4().to_string();
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, format!("{token},admin,admin,system:masters\n")).unwrap();
        let key = folder.join("sa.key");
        let pair = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let apiserver = quiet(Command::new(assets.join("kube-apiserver")).args([
            &format!("--etcd-servers={etcd_url}"),
            &format!("--secure-port={port}"),
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            &format!("--cert-dir={}", folder.join("certs").display()),
            &format!("--token-auth-file={}", tokens.display()),
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            &format!("--service-account-key-file={}", key.display()),
            &format!("--service-account-signing-key-file={}", key.display()),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
        ]));
        let server = Self {
            kubeconfig: kubeconfig.clone(),
            etcd,
            apiserver,
        };
        std::fs::write(kubeconfig, kubeconfig_text(port, &token)).unwrap();
        eventually("the real kube-apiserver", async || {
            let ready = Command::new("kubectl")
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .args(["get", "--raw", "/readyz"])
                .output();
            match ready {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
        server
    }

    /// A client with all rights.
    pub async fn client(&self) -> kube::Client {
        client_of(&self.kubeconfig).await
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        for child in [&mut self.apiserver, &mut self.etcd] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
fn quiet(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn kubeconfig_text(port: u16, token: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{ "name": "real", "context": { "cluster": "real", "user": "real" } }],
        "clusters": [{ "name": "real", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "real", "user": { "token": token } }],
    })
    .to_string()
}
