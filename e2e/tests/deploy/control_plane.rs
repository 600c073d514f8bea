//! A control plane as `deploy/README.md` describes it: kube-apiserver and etcd, with Karmada's
//! CustomResourceDefinitions.

use std::path::{Path, PathBuf};

use berth_e2e::KubeApiserver;
use kube::Client;

use crate::audit::Audit;

/// A running control plane.
pub(crate) struct ControlPlane {
    pub(crate) client: Client,
    pub(crate) audit: Audit,
    /// The server. This field precedes `folder`, so that the server stops before its folder is removed.
    server: KubeApiserver,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// Starts a control plane whose kube-apiserver has these additional flags. The test needs `#[needs(apiserver,
    /// kubectl)]`.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let assets = KubeApiserver::assets().unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::new(folder.path());
        let mut all = audit.flags();
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        let server = KubeApiserver::start_with(&assets, folder.path(), &all).await;
        let plane = Self {
            client: server.client().await,
            audit,
            server,
            folder,
        };
        plane.apply("deploy/namespace.yaml");
        let crds = repository().join("crds").display().to_string();
        plane.kubectl(&["apply", "--server-side", "-f", &crds]);
        plane.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "-f",
            &crds,
        ]);
        plane
    }

    /// Applies a file or folder of the repository.
    pub(crate) fn apply(&self, path: &str) {
        let path = repository().join(path).display().to_string();
        self.kubectl(&["apply", "-f", &path]);
    }

    /// Runs kubectl as the administrator, and returns its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.server.kubectl(arguments)
    }

    /// Writes a kubeconfig with a token of a service account in `karmada-system`, and returns the path of the file.
    pub(crate) fn kubeconfig_of(&self, account: &str) -> PathBuf {
        self.server.kubeconfig_of(account)
    }

    /// Returns the path of the kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig()
    }

    /// Returns a folder for the files of a test. The folder is removed with the control plane.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
