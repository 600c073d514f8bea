//! A [`Fleet`]: a control plane with Karmada's admission rules, and member clusters. The control plane and each member
//! have an API server of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth::controllers::controller_set::run_binding_controllers;
use berth_api::feature_gates::ControllerGates;
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding, Work, names};
use berth_apiserver::{Admission, Server, ServerConfig};
use berth_component_base::program::logging::LogArgs;
use berth_controllers::detector::{self, DetectorOptions};
use berth_controllers::federated_quota::{self, QuotaOptions, StatusController, SyncController};
use berth_controllers::monitor::Monitor;
use berth_controllers::propagation::{self, PropagationOptions};
use berth_controllers::recent_templates::RecentTemplates;
pub use berth_e2e::objects::NAMESPACE;
use berth_e2e::{KubeApiserver, Objects, objects};
use berth_scheduler::Options;
use berth_up::admission::KarmadaAdmission;
use berth_up::quota_admission::QuotaAdmission;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The API server of a member.
enum Backend {
    /// An embedded server and the folder of its credentials.
    Embedded(Box<Server>, tempfile::TempDir),
    KubeApiserver(
        KubeApiserver,
        #[expect(dead_code, reason = "must outlive the server")] tempfile::TempDir,
    ),
}

/// Number of connections that are closed at once while a server is replaced. The test has fewer watches than this, and
/// they retry with equal delays, so each watch fails at least once.
const REFUSED_CONNECTIONS: usize = 12;
/// Time limit for the arrival of these connections.
const REFUSAL_TIMEOUT: Duration = Duration::from_mins(1);

/// A member cluster, and a client that has all rights in it.
pub struct Member {
    pub name: String,
    pub client: Client,
    backend: Backend,
}

/// The running controllers and scheduler of the control plane.
struct Controllers {
    cancel: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// A control plane with members.
pub struct Fleet {
    pub client: Client,
    pub members: Vec<Member>,
    server: Server,
    controllers: Option<Controllers>,
    /// True if controllers and scheduler record an event for each successful step.
    records_routine_events: bool,
}

impl Objects for Fleet {
    fn client(&self) -> &Client {
        &self.client
    }
}

impl Objects for Member {
    fn client(&self) -> &Client {
        &self.client
    }
}

impl Fleet {
    /// Starts a control plane, its controllers and a scheduler, and members `m1`, `m2`, … with ready Clusters.
    pub async fn start(members: usize) -> Self {
        let mut fleet = Self::without_clusters(members).await;
        for index in 0..members {
            fleet.join(index).await;
        }
        fleet.start_controllers();
        fleet
    }

    /// Starts a fleet like [`Self::start`], in which quotas are enforced.
    pub async fn with_quotas(members: usize) -> Self {
        let mut fleet = Self::enforcing_quotas(members).await;
        for index in 0..members {
            fleet.join(index).await;
        }
        fleet.start_controllers();
        let options = QuotaOptions {
            sync: Some(SyncController),
            status: Some(StatusController::Bindings),
            enforcement: Some(Duration::from_mins(5)),
            routine_events: false,
        };
        if let Some(controllers) = &mut fleet.controllers {
            let (client, cancel) = (fleet.client.clone(), controllers.cancel.clone());
            controllers.tasks.push(tokio::spawn(async move {
                federated_quota::run(client, options, Monitor::default(), cancel)
                    .await
                    .unwrap();
            }));
        }
        fleet
    }

    /// Starts a control plane and members, in which admission enforces quotas. The Clusters, the controllers and the
    /// scheduler do not exist yet.
    pub async fn enforcing_quotas(members: usize) -> Self {
        let admission: Vec<Arc<dyn Admission>> =
            vec![Arc::new(KarmadaAdmission), Arc::new(QuotaAdmission)];
        Self::with_admission(members, admission).await
    }

    /// Starts a control plane and members. The Clusters, the controllers and the scheduler do not exist yet.
    pub async fn without_clusters(members: usize) -> Self {
        Self::with_admission(members, vec![Arc::new(KarmadaAdmission)]).await
    }

    async fn with_admission(members: usize, admission: Vec<Arc<dyn Admission>>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_component_base::program::logging::init(&LogArgs::default(), "off");
        let server = Server::start(ServerConfig {
            admission,
            ..ServerConfig::default()
        })
        .await
        .unwrap();
        let client = server.client();
        berth_up::bootstrap::prepare(&client, &[]).await.unwrap();
        let mut fleet = Self {
            client,
            members: Vec::new(),
            server,
            controllers: None,
            records_routine_events: false,
        };
        for index in 1..=members {
            fleet.members.push(Member::start(format!("m{index}")).await);
        }
        fleet
    }

    /// Creates the ready Cluster of a member, and the Secret with its credentials.
    pub async fn join(&self, index: usize) {
        self.join_member(&self.members[index]).await;
    }

    /// Creates the ready Cluster of a member that another fleet may own, and the Secret with its credentials.
    pub async fn join_member(&self, member: &Member) {
        let access = member.access();
        self.apply_secret(&member.name, &access.token, &access.ca_pem)
            .await;
        self.register(&member.name, Some(&access.url)).await;
    }

    /// Creates or updates the Secret with the credentials for a cluster.
    pub async fn apply_secret(&self, name: &str, token: &str, ca_pem: &str) {
        self.apply(json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": "karmada-cluster" },
            "data": { "token": STANDARD.encode(token), "caBundle": STANDARD.encode(ca_pem) } }))
            .await;
    }

    /// Creates or updates a Cluster, and sets its status to ready.
    pub async fn register(&self, name: &str, endpoint: Option<&str>) {
        let mut spec = json!({ "syncMode": "Push",
            "secretRef": { "namespace": "karmada-cluster", "name": name } });
        if let Some(endpoint) = endpoint {
            spec["apiEndpoint"] = json!(endpoint);
        }
        self.apply(
            json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": name }, "spec": spec }),
        )
        .await;
        self.report_ready(name, true).await;
    }

    /// Sets the condition `Ready` of a Cluster, and the list of the kinds that the member serves.
    pub async fn report_ready(&self, name: &str, ready: bool) {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        // The built-in kinds that policies of the tests select.
        let enablements = json!([
            { "groupVersion": "v1", "resources": [
                { "name": "configmaps", "kind": "ConfigMap" }, { "name": "secrets", "kind": "Secret" },
                { "name": "pods", "kind": "Pod" },
                { "name": "services", "kind": "Service" }, { "name": "serviceaccounts", "kind": "ServiceAccount" },
                { "name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim" }] },
            { "groupVersion": "apps/v1", "resources": [
                { "name": "deployments", "kind": "Deployment" }, { "name": "daemonsets", "kind": "DaemonSet" },
                { "name": "statefulsets", "kind": "StatefulSet" }] },
            { "groupVersion": "networking.k8s.io/v1",
                "resources": [{ "name": "ingresses", "kind": "Ingress" }] },
            { "groupVersion": "policy/v1",
                "resources": [{ "name": "poddisruptionbudgets", "kind": "PodDisruptionBudget" }] },
            { "groupVersion": "batch/v1", "resources": [{ "name": "jobs", "kind": "Job" }] },
            { "groupVersion": "rbac.authorization.k8s.io/v1",
                "resources": [{ "name": "clusterroles", "kind": "ClusterRole" },
                    { "name": "roles", "kind": "Role" }] },
        ]);
        let status = json!({ "status": { "apiEnablements": enablements, "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        clusters
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// Lets controllers and scheduler that are started later record an event for each successful step.
    pub fn record_routine_events(&mut self) {
        self.records_routine_events = true;
    }

    /// Starts the detector, the propagation controller, the binding controllers and the scheduler.
    pub fn start_controllers(&mut self) {
        self.start_controllers_with(self.client.clone());
    }

    /// Starts the controllers and the scheduler with this client of the control plane.
    pub fn start_controllers_with(&mut self, control_plane: Client) {
        let cancel = CancellationToken::new();
        let (client, token) = (control_plane.clone(), cancel.clone());
        let mut options = DetectorOptions::parse("", &["kube-.*".to_owned()]).unwrap();
        options.gates.routine_events = self.records_routine_events;
        let routine_events = self.records_routine_events;
        let observed = RecentTemplates::default();
        let templates = observed.clone();
        let detecting = tokio::spawn(async move {
            detector::run(client, options, templates, Monitor::default(), token)
                .await
                .unwrap();
        });
        let (client, token) = (control_plane.clone(), cancel.clone());
        let propagating = tokio::spawn(async move {
            let options = PropagationOptions {
                routine_events,
                ..PropagationOptions::default()
            };
            propagation::run(client, options, observed, Monitor::default(), token)
                .await
                .unwrap();
        });
        let (client, token) = (control_plane.clone(), cancel.clone());
        let gates = ControllerGates::default();
        let binding_controllers = tokio::spawn(async move {
            Box::pin(run_binding_controllers(
                client,
                gates,
                Monitor::default(),
                token,
            ))
            .await
            .unwrap();
        });
        let (client, token) = (control_plane, cancel.clone());
        let scheduling = tokio::spawn(async move {
            let options = Options {
                routine_events,
                ..Options::embedded()
            };
            berth_scheduler::run_with_client(options, client, token)
                .await
                .unwrap();
        });
        self.controllers = Some(Controllers {
            cancel,
            tasks: vec![detecting, propagating, binding_controllers, scheduling],
        });
    }

    /// Stops the controllers and the scheduler.
    pub async fn stop_controllers(&mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.cancel.cancel();
            for task in controllers.tasks {
                task.await.unwrap();
            }
        }
    }

    /// Stops the controllers, the members and the control plane.
    pub async fn stop(mut self) {
        self.stop_controllers().await;
        for member in self.members {
            if let Backend::Embedded(server, _) = member.backend {
                server.shutdown().await;
            }
        }
        self.server.shutdown().await;
    }

    /// Returns the error with which the control plane refuses to create an object.
    pub async fn refusal(&self, manifest: Value) -> String {
        self.create(&manifest).await.unwrap_err().to_string()
    }

    /// Returns the API of the ResourceBindings.
    pub fn bindings(&self) -> Api<ResourceBinding> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Returns the API of the ClusterResourceBindings.
    pub fn cluster_bindings(&self) -> Api<ClusterResourceBinding> {
        Api::all(self.client.clone())
    }

    /// Returns the API of a member's Works.
    pub fn works(&self, member: &str) -> Api<Work> {
        Api::namespaced(self.client.clone(), &names::execution_namespace(member))
    }

    /// Waits until the condition `FullyApplied` of a binding has this status.
    pub async fn wait_for_fully_applied(&self, name: &str, status: &str) -> ResourceBinding {
        objects::wait_for(&self.bindings(), name, "FullyApplied", |binding| {
            let conditions = binding.status.iter().flat_map(|s| &s.conditions);
            let mut applied = conditions.filter(|c| c.type_ == "FullyApplied");
            applied.any(|c| c.status == status)
        })
        .await
    }
}

/// Address and credentials of an API server.
struct Access {
    url: String,
    ca_pem: String,
    token: String,
}

impl Member {
    async fn start(name: String) -> Self {
        if let Some(assets) = KubeApiserver::assets() {
            let folder = tempfile::tempdir().unwrap();
            let server = KubeApiserver::start(&assets, folder.path()).await;
            return Self {
                name,
                client: server.client().await,
                backend: Backend::KubeApiserver(server, folder),
            };
        }
        let credentials = tempfile::tempdir().unwrap();
        let server = start_embedded("127.0.0.1:0", credentials.path()).await;
        Self {
            name,
            client: server.client(),
            backend: Backend::Embedded(Box::new(server), credentials),
        }
    }

    /// Replaces the API server by an empty server with the same address and credentials. Returns `None` for a real
    /// kube-apiserver.
    pub async fn replace_with_empty(self) -> Option<Self> {
        let Backend::Embedded(server, credentials) = self.backend else {
            return None;
        };
        let url = server.url();
        server.shutdown().await;
        let address = url.trim_start_matches("https://");
        // Each watch must fail first. Otherwise it would continue from its last resource version and receive no events.
        let gap = tokio::net::TcpListener::bind(address).await.unwrap();
        let refused = async {
            for _ in 0..REFUSED_CONNECTIONS {
                drop(gap.accept().await.unwrap());
            }
        };
        tokio::time::timeout(REFUSAL_TIMEOUT, refused)
            .await
            .unwrap();
        drop(gap);
        let server = start_embedded(address, credentials.path()).await;
        Some(Self {
            name: self.name,
            client: server.client(),
            backend: Backend::Embedded(Box::new(server), credentials),
        })
    }

    fn access(&self) -> Access {
        match &self.backend {
            Backend::Embedded(server, _) => Access {
                url: server.url(),
                ca_pem: server.ca_pem().to_owned(),
                token: server.token().to_owned(),
            },
            Backend::KubeApiserver(server, _) => {
                let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
                let config: Value = serde_json::from_str(&text).unwrap();
                let cluster = &config["clusters"][0]["cluster"];
                let authority = cluster["certificate-authority"].as_str().unwrap();
                let token = &config["users"][0]["user"]["token"];
                Access {
                    url: server.url().to_owned(),
                    ca_pem: std::fs::read_to_string(authority).unwrap(),
                    token: token.as_str().unwrap().to_owned(),
                }
            }
        }
    }

    /// Returns the URL of the API server.
    pub fn url(&self) -> String {
        self.access().url
    }

    /// Returns the CA certificate and the token.
    pub fn credentials(&self) -> (String, String) {
        let access = self.access();
        (access.ca_pem, access.token)
    }
}

async fn start_embedded(address: &str, credentials: &Path) -> Server {
    let config = ServerConfig {
        listen: address.parse().unwrap(),
        credentials: Some(credentials.to_owned()),
        ..ServerConfig::default()
    };
    Server::start(config).await.unwrap()
}
