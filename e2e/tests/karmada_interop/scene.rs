//! The scene of the interoperability tests: a control plane with three simulated members, and a scheduler and
//! controllers of Berth or Karmada.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth::join::{self, Endpoint};
use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding, Work, names};
use berth_e2e::objects::{api, handle};
use berth_e2e::record::objects as recording;
use berth_e2e::{KubeApiserver, Objects as _, Program, client_of, eventually, objects};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::TypeMeta;
use serde_json::{Value, json};

use crate::manifests;
use crate::program::Provider;
use crate::webhook;

/// The time without writes after which the programs are idle.
const QUIET_TIME: Duration = Duration::from_secs(6);
/// The time limit until the programs are idle.
const QUIET_TIMEOUT: Duration = Duration::from_mins(2);

/// A running control plane with members.
pub struct Scene {
    /// A client of the administrator.
    pub client: Client,
    /// The programs. This field precedes the servers, so that the programs are dropped first.
    programs: Vec<Program>,
    /// The simulated members. If `kube_apiserver` is `None`, the embedded control plane also provides the API server.
    up: ControlPlane,
    kube_apiserver: Option<KubeApiserver>,
    kubeconfig: PathBuf,
    /// The folder of the logs and the kubeconfig.
    folder: tempfile::TempDir,
}

/// Installs Karmada's CustomResourceDefinitions in a control plane, and joins the simulated members.
async fn bootstrap(control: &Client, up: &ControlPlane) {
    berth_up::bootstrap::prepare(control, &[]).await.unwrap();
    for (member, cluster) in up.members().iter().zip(berth_up::fleet::generate(3)) {
        let endpoint = Endpoint {
            url: member.server().url(),
            ca_pem: member.server().ca_pem().to_owned(),
        };
        let inside = member.server().client();
        join::join(control, &inside, &endpoint, &cluster)
            .await
            .unwrap();
    }
}

impl Scene {
    /// Starts a control plane with three members, and the scheduler and controllers of these providers.
    pub async fn start(scheduler: &Provider, controllers: &Provider) -> Self {
        Box::pin(Self::start_with(scheduler, controllers, &[])).await
    }

    /// Starts a control plane like [`Self::start`], with further flags of the scheduler.
    pub async fn start_with(
        scheduler: &Provider,
        controllers: &Provider,
        scheduler_flags: &[&str],
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let arguments = UpArgs {
            port: 0,
            members: 3,
            without: vec![DisabledComponent::Scheduler, DisabledComponent::Controllers],
            ..UpArgs::default()
        };
        let up = ControlPlane::start(&arguments).await.unwrap();
        let mut kubeconfig = folder.path().join("kubeconfig");
        let kube_apiserver = if let Some(assets) = KubeApiserver::assets() {
            let server = KubeApiserver::start(&assets, folder.path()).await;
            server.kubeconfig().clone_into(&mut kubeconfig);
            bootstrap(&server.client().await, &up).await;
            Some(server)
        } else {
            std::fs::write(&kubeconfig, up.server().kubeconfig("interop")).unwrap();
            None
        };
        let mut scene = Self {
            client: client_of(&kubeconfig).await,
            programs: Vec::new(),
            up,
            kube_apiserver,
            kubeconfig: kubeconfig.clone(),
            folder,
        };
        let logs = scene.folder.path().to_owned();
        if let Provider::Karmada(karmada) = controllers {
            for definition in manifests::definitions() {
                scene.apply(&definition).await;
            }
            if scene.is_kube_apiserver() {
                let (program, configuration) = webhook::start(karmada, &logs, &kubeconfig).await;
                scene.run(program);
                scene.apply(&configuration).await;
            }
        }
        scene.run(controllers.controllers(&logs, &kubeconfig));
        // Start the scheduler last. Otherwise it could place a workload before all clusters have reported their APIs,
        // and would not move the workload later.
        scene.wait_until_clusters_are_ready().await;
        scene.run(scheduler.scheduler(&logs, &kubeconfig, scheduler_flags));
        scene
    }

    /// Waits until every cluster is ready and has reported its APIs and its capacity.
    async fn wait_until_clusters_are_ready(&self) {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        eventually("the status of the clusters", async || {
            let found = clusters.list(&ListParams::default()).await;
            let found = found.map_err(|error| error.to_string())?;
            let mut waiting = found.items.iter().filter(|cluster| !is_ready(cluster));
            match waiting.next() {
                Some(cluster) => Err(format!("{:?}", cluster.status)),
                None => Ok(()),
            }
        })
        .await;
    }

    fn run(&mut self, program: Program) {
        self.programs.push(program);
    }

    /// Kills the scheduler, and starts the scheduler of this provider.
    pub fn replace_scheduler(&mut self, scheduler: &Provider) {
        // The scheduler is the last started program.
        drop(self.programs.pop());
        let (logs, kubeconfig) = (self.folder.path(), self.kubeconfig.as_path());
        let program = scheduler.scheduler(logs, kubeconfig, &[]);
        self.run(program);
    }

    /// Starts Berth's scheduler with this scheduler name, beside the other scheduler.
    pub fn start_second_scheduler(&mut self, name: &str) {
        let (logs, kubeconfig) = (self.folder.path(), self.kubeconfig.as_path());
        let program = Provider::second_scheduler(name, logs, kubeconfig);
        self.run(program);
    }

    /// Reports whether the API server of the control plane is kube-apiserver. No garbage collector and no admission
    /// rules of Berth run with this server.
    pub fn is_kube_apiserver(&self) -> bool {
        self.kube_apiserver.is_some()
    }

    /// Stops the programs, the members and the servers.
    pub async fn stop(self) {
        drop(self.programs);
        self.up.stop().await;
        drop(self.kube_apiserver);
    }

    /// Returns a client of the administrator of a member.
    pub fn member(&self, name: &str) -> Client {
        let mut members = self.up.members().iter();
        let member = members.find(|member| member.name() == name).unwrap();
        member.server().client()
    }

    /// Returns the names of the members in which an object exists.
    pub async fn members_with(&self, object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for member in self.up.members() {
            let (api, name) = handle(&member.server().client(), object);
            if api.get_opt(&name).await.unwrap().is_some() {
                found.push(member.name().to_owned());
            }
        }
        found
    }

    /// Creates or updates an object of the control plane with server-side apply.
    pub async fn apply(&self, object: &Value) {
        let (api, name) = handle(&self.client, object);
        let parameters = PatchParams::apply("test").force();
        let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
        applied.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Replaces the taints of a cluster by one taint with this effect.
    pub async fn taint(&self, cluster: &str, effect: &str) {
        let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": cluster } });
        let taint = json!({ "key": "test", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z" });
        self.client
            .edit(&cluster, json!({ "spec": { "taints": [taint] } }))
            .await;
    }

    /// Waits until an object exists in no member.
    pub async fn wait_until_gone(&self, object: &Value) {
        eventually("removal from all members", async || {
            let left = self.members_with(object).await;
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        })
        .await;
    }

    /// Waits until a binding satisfies `wanted`, and returns the binding.
    pub async fn wait_for_binding(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&ResourceBinding) -> bool,
    ) -> ResourceBinding {
        let bindings: Api<ResourceBinding> = Api::namespaced(self.client.clone(), "default");
        objects::wait_for(&bindings, name, what, wanted).await
    }

    /// Lists the Works of all members.
    pub async fn works(&self) -> Vec<Work> {
        let mut all = Vec::new();
        for member in self.up.members() {
            let namespace = names::execution_namespace(member.name());
            let works: Api<Work> = Api::namespaced(self.client.clone(), &namespace);
            all.extend(works.list(&ListParams::default()).await.unwrap().items);
        }
        all
    }

    /// Writes the objects of the control plane into the file `NAME.json` in the folder that [`recording::VARIABLE`] names.
    /// Does nothing if this variable is not set.
    pub async fn record(&self, name: &str) {
        let Some(folder) = std::env::var_os(recording::VARIABLE) else {
            return;
        };
        let mut recorded = serde_json::Map::new();
        for (field, api_version, kind) in [
            ("clusters", "cluster.karmada.io/v1alpha1", "Cluster"),
            ("bindings", "work.karmada.io/v1alpha2", "ResourceBinding"),
            (
                "clusterBindings",
                "work.karmada.io/v1alpha2",
                "ClusterResourceBinding",
            ),
            ("works", "work.karmada.io/v1alpha1", "Work"),
            (
                "policies",
                "policy.karmada.io/v1alpha1",
                "PropagationPolicy",
            ),
            (
                "clusterPolicies",
                "policy.karmada.io/v1alpha1",
                "ClusterPropagationPolicy",
            ),
            ("deployments", "apps/v1", "Deployment"),
            ("configMaps", "v1", "ConfigMap"),
            (
                "clusterRoles",
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
            ),
        ] {
            let api = api(&self.client, api_version, kind, None);
            let mut found = Vec::new();
            for mut object in api.list(&ListParams::default()).await.unwrap() {
                // Keep all Clusters and Works. Of the other kinds, skip the objects without a permanent id, which the
                // scenario has not created.
                let propagated = ["Cluster", "Work"].contains(&kind)
                    || object
                        .metadata
                        .labels
                        .iter()
                        .flatten()
                        .any(|(key, _)| key.contains("permanent-id"));
                if propagated {
                    object.metadata.managed_fields = None;
                    object.types = Some(TypeMeta {
                        api_version: api_version.to_owned(),
                        kind: kind.to_owned(),
                    });
                    found.push(serde_json::to_value(object).unwrap());
                }
            }
            recorded.insert(field.to_owned(), Value::Array(found));
        }
        recording::write(folder.as_ref(), name, recorded.into()).unwrap();
    }

    /// Waits until no object has changed for [`QUIET_TIME`].
    pub async fn wait_until_quiet(&self) {
        let end = Instant::now() + QUIET_TIMEOUT;
        let (mut seen, mut since) = (self.versions().await, Instant::now());
        while since.elapsed() < QUIET_TIME {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.versions().await;
            if now != seen {
                let changed: Vec<_> = now.iter().filter(|object| !seen.contains(object)).collect();
                assert!(Instant::now() < end, "objects still change: {changed:?}");
                (seen, since) = (now, Instant::now());
            }
        }
    }

    /// Returns the versions of the bindings, Works and policies, and of the objects of the propagated kinds in all
    /// clusters. Omits Clusters, because their status changes all the time.
    async fn versions(&self) -> Vec<(String, String)> {
        let mut versions = Vec::new();
        let mut add = |kind: &str, object: &dyn Fn() -> (String, String)| {
            let (name, version) = object();
            versions.push((format!("{kind} {name}"), version));
        };
        let everything = ListParams::default();
        let bindings: Api<ResourceBinding> = Api::all(self.client.clone());
        for object in bindings.list(&everything).await.unwrap() {
            add("ResourceBinding", &|| name_and_version(&object));
        }
        let bindings: Api<ClusterResourceBinding> = Api::all(self.client.clone());
        for object in bindings.list(&everything).await.unwrap() {
            add("ClusterResourceBinding", &|| name_and_version(&object));
        }
        for object in self.works().await {
            add("Work", &|| name_and_version(&object));
        }
        let kinds = [
            ("apps/v1", "Deployment"),
            ("v1", "ConfigMap"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
            ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
        ];
        let of_members = self.up.members().iter();
        let of_members =
            of_members.map(|member| (member.name().to_owned(), member.server().client()));
        let clients =
            std::iter::once(("control plane".to_owned(), self.client.clone())).chain(of_members);
        for (cluster, client) in clients {
            for (api_version, kind) in kinds {
                if cluster != "control plane" && api_version.starts_with("policy") {
                    continue;
                }
                let api = api(&client, api_version, kind, None);
                for object in api.list(&everything).await.unwrap() {
                    add(&format!("{cluster} {kind}"), &|| name_and_version(&object));
                }
            }
        }
        versions
    }
}

/// Reports whether a cluster is ready and has reported its APIs and its capacity.
fn is_ready(cluster: &Cluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| {
        let ready =
            |condition: &Condition| condition.type_ == "Ready" && condition.status == "True";
        status.conditions.iter().any(ready)
            && !status.api_enablements.is_empty()
            && status.resource_summary.is_some()
    })
}

fn name_and_version(object: &impl kube::ResourceExt) -> (String, String) {
    let namespace = object.namespace().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    (format!("{namespace}/{}", object.name_any()), version)
}
