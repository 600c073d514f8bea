//! A complete control plane for one test: an API server with controllers, a scheduler and simulated members.
//!
//! [`BareControlPlane`](crate::BareControlPlane) has no controllers and no scheduler.

use std::path::{Path, PathBuf};

use berth::controllers::controller_set::ControllerFlags;
use berth::controllers::selection::{Controller, Selection};
use berth::up::{ControlPlane, UpArgs};
use berth_api::Cluster;
use berth_component_base::program::logging::LogArgs;
use berth_scheduler::Options;
use berth_scheduler::config::DeclaredProfiles;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

use crate::bootstrap::{bootstrap, client_of, remove_test_members};
use crate::kube_apiserver::KubeApiserver;
use crate::{kubectl, objects};

/// A lock that lets only one test at a time use an existing cluster.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Options of a control plane.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Number of members: `member1`, `member2`, …
    pub members: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self { members: 3 }
    }
}

/// A control plane with a detector, the default scheduler, simulated members, and a namespace for the test.
pub struct Plane {
    /// A client with all rights.
    pub client: Client,
    /// The namespace of this test.
    pub namespace: String,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    cancel: CancellationToken,
    kind: Kind,
}

enum Kind {
    Embedded(Box<ControlPlane>),
    KubeApiserver(KubeApiserver),
    Existing(
        #[expect(dead_code, reason = "held for the lifetime of the plane")] MutexGuard<'static, ()>,
    ),
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
impl Plane {
    /// Starts a control plane with three members.
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    /// Starts a control plane.
    ///
    /// # Panics
    /// If the control plane does not start.
    pub async fn start_with(setup: Setup) -> Self {
        // The call fails if another test of this process has already installed the provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_component_base::program::logging::init(&LogArgs::default(), "off");
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let cancel = CancellationToken::new();
        let (client, kind) = if let Some(path) = std::env::var_os("BERTH_E2E_KUBECONFIG") {
            let alone = ONE_AT_A_TIME.lock().await;
            std::fs::copy(path, &kubeconfig).unwrap();
            let client = client_of(&kubeconfig).await;
            remove_test_members(&client).await;
            bootstrap(&client, setup.members, &cancel).await;
            (client, Kind::Existing(alone))
        } else if let Some(assets) = KubeApiserver::assets() {
            let server = KubeApiserver::start(&assets, folder.path()).await;
            let client = server.client().await;
            bootstrap(&client, setup.members, &cancel).await;
            (client, Kind::KubeApiserver(server))
        } else {
            let arguments = UpArgs {
                port: 0,
                members: setup.members,
                // All cluster controllers are disabled, because the tests write the status of Clusters themselves.
                controllers: ControllerFlags {
                    selection: Selection::without(&[
                        Controller::Cluster,
                        Controller::ClusterStatus,
                        Controller::Namespace,
                        Controller::UnifiedAuth,
                    ]),
                    ..ControllerFlags::default()
                },
                ..UpArgs::default()
            };
            let plane = ControlPlane::start(&arguments)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            std::fs::write(&kubeconfig, plane.server().kubeconfig("berth")).unwrap();
            (
                client_of(&kubeconfig).await,
                Kind::Embedded(Box::new(plane)),
            )
        };
        let mut plane = Self {
            client,
            namespace: String::new(),
            kubeconfig,
            folder,
            cancel,
            kind,
        };
        plane.namespace = plane.new_namespace().await;
        plane
    }

    /// Reports whether a garbage collector runs. It runs everywhere except on a real kube-apiserver, which the tests
    /// start without kube-controller-manager.
    pub fn collects_garbage(&self) -> bool {
        !matches!(self.kind, Kind::KubeApiserver(_))
    }

    /// Reports whether the API server applies Karmada's admission rules. Only the embedded API server applies them.
    pub fn admits_as_karmada(&self) -> bool {
        matches!(self.kind, Kind::Embedded(_))
    }

    /// Returns the kubeconfig of this control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a name for a cluster-scoped object. The name is unique to this test.
    pub fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    /// Creates a namespace with a unique name.
    ///
    /// # Panics
    /// If the server rejects the request.
    pub async fn new_namespace(&self) -> String {
        let namespace = k8s_openapi::api::core::v1::Namespace {
            metadata: ObjectMeta {
                generate_name: Some("berthtest-".to_owned()),
                ..ObjectMeta::default()
            },
            ..Default::default()
        };
        Api::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap()
            .name_any()
    }

    /// Starts another scheduler with this name. The scheduler stops when the returned token is cancelled.
    pub fn run_scheduler(&self, name: &str) -> CancellationToken {
        let cancel = self.cancel.child_token();
        let options = Options {
            declared: DeclaredProfiles::single_profile_named(name),
            ..Options::embedded()
        };
        let (client, token) = (self.client.clone(), cancel.clone());
        tokio::spawn(async move {
            if let Err(error) = berth_scheduler::run_with_client(options, client, token).await {
                tracing::error!(%error, "the test's scheduler ended");
            }
        });
        cancel
    }

    /// Runs kubectl in the namespace of the test, and returns its standard output.
    ///
    /// # Panics
    /// If kubectl fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "kubectl {}: {text}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    /// Runs kubectl in the namespace of the test. Returns the exit status and the output, also if kubectl fails.
    ///
    /// # Panics
    /// If kubectl cannot be started.
    pub fn try_kubectl(&self, arguments: &[&str]) -> std::process::Output {
        let mut all = vec!["--namespace", &self.namespace];
        all.extend(arguments);
        kubectl::run(&self.kubeconfig, &self.folder.path().join("cache"), &all).unwrap()
    }

    /// Writes a manifest to a file and runs `kubectl apply` on it.
    ///
    /// # Panics
    /// If kubectl cannot be started.
    pub fn kubectl_apply(&self, manifest: &Value) -> std::process::Output {
        let file = self.folder.path().join("manifest.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        self.try_kubectl(&["apply", "-f", &file.display().to_string()])
    }

    /// Returns the API for a namespaced kind in the namespace of the test.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the API for a cluster-scoped kind, or for a namespaced kind in all namespaces.
    pub fn all<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Creates an object. A namespaced object whose manifest has no namespace is created in the namespace of the test.
    ///
    /// # Errors
    /// If the server rejects the object.
    ///
    /// # Panics
    /// If the manifest has no kind.
    pub async fn create(&self, manifest: Value) -> Result<Value, kube::Error> {
        let api = objects::api_of(&self.client, &manifest, &self.namespace);
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        let created = api.create(&PostParams::default(), &object).await?;
        Ok(serde_json::to_value(created).unwrap_or_default())
    }

    /// Creates several objects, in this order.
    ///
    /// # Panics
    /// If the server rejects an object.
    pub async fn create_all(&self, manifests: impl IntoIterator<Item = Value>) {
        for manifest in manifests {
            let name = format!("{} {}", manifest["kind"], manifest["metadata"]["name"]);
            if let Err(error) = self.create(manifest).await {
                panic!("cannot create {name}: {error}");
            }
        }
    }

    /// Changes an object with a merge patch.
    ///
    /// # Panics
    /// If the server rejects the request.
    pub async fn edit<K>(&self, api: &Api<K>, name: &str, changes: Value) -> K
    where
        K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(&changes))
            .await
        {
            Ok(object) => object,
            Err(error) => panic!("cannot change {name} by {changes}: {error}"),
        }
    }

    /// Changes the status of a member's Cluster with a merge patch.
    ///
    /// # Panics
    /// If the server rejects the request.
    pub async fn report(&self, member: &str, status: Value) {
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        self.all::<Cluster>()
            .patch_status(member, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until an object satisfies the condition `wanted`, and returns the object. `what` describes the condition
    /// in the message of a failure.
    pub async fn until<K>(
        &self,
        api: &Api<K>,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool,
    ) -> K
    where
        K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        objects::wait_for(api, name, what, wanted).await
    }

    /// Waits until an object no longer exists.
    pub async fn until_gone<K>(&self, api: &Api<K>, name: &str)
    where
        K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        objects::wait_until_gone(api, name).await;
    }

    /// Stops the control plane. Removes the test's members and namespace from an existing cluster.
    pub async fn stop(self) {
        self.cancel.cancel();
        match self.kind {
            Kind::Embedded(plane) => plane.stop().await,
            Kind::KubeApiserver(server) => drop(server),
            Kind::Existing(_) => {
                remove_test_members(&self.client).await;
                let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
                    Api::all(self.client.clone());
                let _ = namespaces
                    .delete(&self.namespace, &DeleteParams::default())
                    .await;
            }
        }
    }
}
