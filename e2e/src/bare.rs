//! A control plane without any controller: a server, Karmada's definitions, and clusters.
//!
//! Tests of the scheduler service put bindings into it as the detector would, and start schedulers
//! themselves.

use std::path::{Path, PathBuf};

use berth_api::component::Component;
use berth_api::{Cluster, ResourceBinding};
use berth_apiserver::{Server, ServerConfig};
use berth_scheduler::connect;
use berth_scheduler::process::logging::LogArgs;
use berth_scheduler::{Options, ServiceError};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::RealServer;

/// How many objects are created at the same time.
const AT_ONCE: usize = 16;

/// A control plane without any controller.
pub struct Bare {
    /// A client for the test's own looks; to the embedded server it is a function call.
    pub client: Client,
    /// Ended before its folder goes.
    server: Backend,
    folder: tempfile::TempDir,
}

/// What serves the API.
enum Backend {
    Embedded(Box<Server>),
    Real(RealServer),
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
impl Bare {
    /// Starts a server and registers clusters with their status. It is a real kube-apiserver where
    /// `KUBEBUILDER_ASSETS` names a folder with one.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(clusters: &[Cluster]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_scheduler::process::logging::init(&LogArgs::default(), "off");
        let folder = tempfile::tempdir().unwrap();
        let (client, server) = if let Some(assets) = RealServer::assets() {
            let server = RealServer::start(&assets, folder.path()).await;
            (server.client().await, Backend::Real(server))
        } else {
            let server = Server::start(ServerConfig::default()).await.unwrap();
            std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig("bare")).unwrap();
            (server.client(), Backend::Embedded(Box::new(server)))
        };
        berth::up::prepare(&client, clusters).await.unwrap();
        Self {
            client,
            server,
            folder,
        }
    }

    /// The server's address, `https://…`.
    pub fn url(&self) -> String {
        match &self.server {
            Backend::Embedded(server) => server.url(),
            Backend::Real(server) => server.url().to_owned(),
        }
    }

    /// Writes a certificate of this user and its key to files, where the server issues any.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write_certificate(
        &self,
        user: &str,
        group: &str,
        certificate: &Path,
        key: &Path,
    ) -> bool {
        let Backend::Embedded(server) = &self.server else {
            return false;
        };
        let issued = server.client_certificate(user, Some(group)).unwrap();
        std::fs::write(certificate, issued.certificate_pem).unwrap();
        std::fs::write(key, issued.key_pem).unwrap();
        true
    }

    /// The authority of the server, in PEM; empty for a real one.
    pub fn ca_pem(&self) -> &str {
        match &self.server {
            Backend::Embedded(server) => server.ca_pem(),
            Backend::Real(_) => "",
        }
    }

    /// Whether the server is a real kube-apiserver.
    pub fn is_real(&self) -> bool {
        matches!(self.server, Backend::Real(_))
    }

    /// A kubeconfig for the server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder that lives as long as the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client that speaks to the server over TLS, as a scheduler of another process does.
    ///
    /// # Panics
    /// When the server's own kubeconfig cannot be used.
    pub async fn remote_client(&self) -> Client {
        let target = connect::Target {
            kubeconfig: Some(self.kubeconfig()),
            ..connect::Target::default()
        };
        let config = connect::config(&target).await.unwrap();
        connect::client(config, Component::Scheduler).unwrap()
    }

    /// The ResourceBindings of a namespace.
    pub fn bindings(&self, namespace: &str) -> Api<ResourceBinding> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The Clusters.
    pub fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    /// Creates a binding, with its status where it has one.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn bind(&self, binding: &ResourceBinding) -> ResourceBinding {
        let namespace = binding.namespace().unwrap_or_else(|| "default".to_owned());
        let api = self.bindings(&namespace);
        let created = api.create(&PostParams::default(), binding).await.unwrap();
        let Some(status) = &binding.status else {
            return created;
        };
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        api.patch_status(&binding.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Creates bindings, several at a time.
    pub async fn bind_all(&self, bindings: &[ResourceBinding]) {
        stream::iter(bindings)
            .for_each_concurrent(AT_ONCE, |binding| async move {
                self.bind(binding).await;
            })
            .await;
    }

    /// All bindings that there are now.
    ///
    /// # Panics
    /// When they cannot be listed.
    pub async fn all_bindings(&self) -> Vec<ResourceBinding> {
        let api: Api<ResourceBinding> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// Makes namespaces.
    ///
    /// # Panics
    /// When one is refused.
    pub async fn add_namespaces(&self, names: &[String]) {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let created = stream::iter(names).map(|name| {
            let api = api.clone();
            async move {
                let namespace = k8s_openapi::api::core::v1::Namespace {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        ..ObjectMeta::default()
                    },
                    ..Default::default()
                };
                api.create(&PostParams::default(), &namespace).await
            }
        });
        created
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await
            .unwrap();
    }

    /// Stops the server.
    pub async fn stop(self) {
        match self.server {
            Backend::Embedded(server) => server.shutdown().await,
            Backend::Real(server) => drop(server),
        }
    }
}

/// Registers a cluster with its status.
///
/// # Panics
/// When the server refuses it.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn join(client: &Client, cluster: &Cluster) {
    let api: Api<Cluster> = Api::all(client.clone());
    api.create(&PostParams::default(), cluster).await.unwrap();
    let patch = Patch::Merge(serde_json::json!({ "status": cluster.status }));
    api.patch_status(&cluster.name_any(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// A scheduler that runs in this process.
#[derive(Debug)]
pub struct Running {
    cancel: CancellationToken,
    task: JoinHandle<Result<(), ServiceError>>,
}

impl Running {
    /// Starts a scheduler.
    pub fn start(options: Options, client: Client) -> Self {
        let cancel = CancellationToken::new();
        let task = tokio::spawn(berth_scheduler::run_with_client(
            options,
            client,
            cancel.clone(),
        ));
        Self { cancel, task }
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// Why it ended, if not because it was asked to.
    ///
    /// # Panics
    /// When it panicked.
    #[expect(clippy::unwrap_used, reason = "this is how a test fails")]
    pub async fn stop(self) -> Result<(), ServiceError> {
        self.cancel.cancel();
        self.task.await.unwrap()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}
