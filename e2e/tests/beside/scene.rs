//! A control plane with simulated members, and two programs that share the work.

use std::time::{Duration, Instant};

use berth::join::{self, Endpoint};
use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_api::component::Component;
use berth_api::{ClusterResourceBinding, ResourceBinding, Work, names};
use berth_e2e::{RealServer, eventually};
use berth_scheduler::connect;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::manifests;
use crate::objects::{handle, resource};
use crate::program::{Program, Side};
use crate::webhook;

/// For how long nobody may write anything when all is done.
const QUIET: Duration = Duration::from_secs(6);
/// How long the last writes may take to come.
const PATIENCE: Duration = Duration::from_mins(2);

/// A control plane with members, which runs until it is stopped.
pub struct Scene {
    /// A client with all rights.
    pub client: Client,
    /// The programs, ended before what they talk to.
    programs: Vec<Program>,
    /// Its own API server is the control plane's unless there is a real one. Its members are members in any case.
    up: ControlPlane,
    real: Option<RealServer>,
    /// Where the programs log.
    folder: tempfile::TempDir,
}

/// Makes the control plane one for members that are simulated elsewhere.
async fn furnish(control: &Client, up: &ControlPlane) {
    berth::up::prepare(control, &[]).await.unwrap();
    for (member, cluster) in up.members().iter().zip(berth::fleet::generate(3)) {
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

async fn client_of(kubeconfig: &std::path::Path) -> Client {
    let target = connect::Target {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..connect::Target::default()
    };
    let config = connect::config(&target).await.unwrap();
    connect::client(config, Component::CommandLine).unwrap()
}

impl Scene {
    /// Starts a control plane with three members, a scheduler and controllers.
    pub async fn start(scheduler: &Side, controllers: &Side) -> Self {
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
        let real = if let Some(assets) = RealServer::assets() {
            let server = RealServer::start(&assets, folder.path()).await;
            server.kubeconfig().clone_into(&mut kubeconfig);
            furnish(&server.client().await, &up).await;
            Some(server)
        } else {
            std::fs::write(&kubeconfig, up.server().kubeconfig("beside")).unwrap();
            None
        };
        let mut scene = Self {
            client: client_of(&kubeconfig).await,
            programs: Vec::new(),
            up,
            real,
            folder,
        };
        let logs = scene.folder.path().to_owned();
        if let Side::Theirs(karmada) = controllers {
            for definition in manifests::definitions() {
                scene.apply(&definition).await;
            }
            if scene.is_real() {
                let (program, configuration) = webhook::start(karmada, &logs, &kubeconfig).await;
                scene.run(program);
                scene.apply(&configuration).await;
            }
        }
        scene.run(controllers.controllers(&logs, &kubeconfig));
        scene.run(scheduler.scheduler(&logs, &kubeconfig));
        scene
    }

    fn run(&mut self, program: Program) {
        self.programs.push(program);
    }

    /// Whether the control plane is a lone kube-apiserver, which collects no garbage and has no admission of Karmada's.
    pub fn is_real(&self) -> bool {
        self.real.is_some()
    }

    /// Stops everything.
    pub async fn stop(self) {
        drop(self.programs);
        self.up.stop().await;
        drop(self.real);
    }

    /// A client of a member, with all rights.
    pub fn member(&self, name: &str) -> Client {
        let mut members = self.up.members().iter();
        let member = members.find(|member| member.name() == name).unwrap();
        member.server().client()
    }

    /// The members that have an object.
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

    /// Creates or changes an object of the control plane.
    pub async fn apply(&self, object: &Value) {
        let (api, name) = handle(&self.client, object);
        let parameters = PatchParams::apply("test").force();
        let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
        applied.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Changes an object of the control plane by a merge patch.
    pub async fn edit(&self, object: &Value, changes: &Value) {
        let (api, name) = handle(&self.client, object);
        let parameters = PatchParams::default();
        api.patch(&name, &parameters, &Patch::Merge(changes))
            .await
            .unwrap();
    }

    /// Deletes an object of the control plane.
    pub async fn delete(&self, object: &Value) {
        let (api, name) = handle(&self.client, object);
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Adds a taint to a cluster.
    pub async fn taint(&self, cluster: &str, effect: &str) {
        let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": cluster } });
        let taint = json!({ "key": "test", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z" });
        self.edit(&cluster, &json!({ "spec": { "taints": [taint] } }))
            .await;
    }

    /// Waits until an object is as wanted, in the control plane or a member.
    pub async fn until(
        &self,
        client: &Client,
        object: &Value,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let (api, name) = handle(client, object);
        eventually(&format!("{name}: {what}"), async || {
            match api
                .get_opt(&name)
                .await
                .map_err(|error| error.to_string())?
            {
                Some(found) => {
                    let found = serde_json::to_value(found).unwrap();
                    if wanted(&found) {
                        Ok(found)
                    } else {
                        Err(format!("it is {found}"))
                    }
                }
                None => Err("it is not there".to_owned()),
            }
        })
        .await
    }

    /// Waits until an object is gone from all members, and its Works with it.
    pub async fn until_nowhere(&self, object: &Value) {
        eventually("the members to be empty", async || {
            let left = self.members_with(object).await;
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        })
        .await;
    }

    /// Waits until a binding is as wanted.
    pub async fn binding(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&ResourceBinding) -> bool,
    ) -> ResourceBinding {
        let bindings: Api<ResourceBinding> = Api::namespaced(self.client.clone(), "default");
        eventually(&format!("{name}: {what}"), async || {
            match bindings
                .get_opt(name)
                .await
                .map_err(|error| error.to_string())?
            {
                Some(binding) if wanted(&binding) => Ok(binding),
                other => Err(format!("it is {other:?}")),
            }
        })
        .await
    }

    /// The Works for members.
    pub async fn works(&self) -> Vec<Work> {
        let mut all = Vec::new();
        for member in self.up.members() {
            let namespace = names::execution_namespace(member.name());
            let works: Api<Work> = Api::namespaced(self.client.clone(), &namespace);
            all.extend(works.list(&ListParams::default()).await.unwrap().items);
        }
        all
    }

    /// Writes what is there into a file of the folder that `BERTH_E2E_RECORD` names, if it names one.
    pub async fn record(&self, name: &str) {
        let Some(folder) = std::env::var_os("BERTH_E2E_RECORD") else {
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
            let kind = json!({ "apiVersion": api_version, "kind": kind });
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(&kind));
            let mut found = Vec::new();
            for mut object in api.list(&ListParams::default()).await.unwrap() {
                // What nobody propagates is the server's own.
                let own = ["Cluster", "Work"].contains(&kind["kind"].as_str().unwrap())
                    || object
                        .metadata
                        .labels
                        .iter()
                        .flatten()
                        .any(|(key, _)| key.contains("permanent-id"));
                if own {
                    object.metadata.managed_fields = None;
                    object.types = serde_json::from_value(kind.clone()).ok();
                    found.push(serde_json::to_value(object).unwrap());
                }
            }
            recorded.insert(field.to_owned(), Value::Array(found));
        }
        let path = std::path::Path::new(&folder).join(format!("{name}.json"));
        std::fs::write(
            path,
            serde_json::to_string_pretty(&recorded).unwrap() + "\n",
        )
        .unwrap();
    }

    /// Waits until nobody writes anything any more.
    pub async fn quiet(&self) {
        let end = Instant::now() + PATIENCE;
        let (mut seen, mut since) = (self.versions().await, Instant::now());
        while since.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.versions().await;
            if now != seen {
                let changed: Vec<_> = now.iter().filter(|object| !seen.contains(object)).collect();
                assert!(Instant::now() < end, "somebody still writes {changed:?}");
                (seen, since) = (now, Instant::now());
            }
        }
    }

    /// The versions of all that the two programs have to do with. Clusters report what is free in them all the time.
    async fn versions(&self) -> Vec<(String, String)> {
        let mut versions = Vec::new();
        let mut add = |kind: &str, object: &dyn Fn() -> (String, String)| {
            let (name, version) = object();
            versions.push((format!("{kind} {name}"), version));
        };
        let everything = ListParams::default();
        let bindings: Api<ResourceBinding> = Api::all(self.client.clone());
        for object in bindings.list(&everything).await.unwrap() {
            add("ResourceBinding", &|| named(&object));
        }
        let bindings: Api<ClusterResourceBinding> = Api::all(self.client.clone());
        for object in bindings.list(&everything).await.unwrap() {
            add("ClusterResourceBinding", &|| named(&object));
        }
        for object in self.works().await {
            add("Work", &|| named(&object));
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
        for (place, client) in clients {
            for (api_version, kind) in kinds {
                if place != "control plane" && api_version.starts_with("policy") {
                    continue;
                }
                let object = json!({ "apiVersion": api_version, "kind": kind });
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(&object));
                for object in api.list(&everything).await.unwrap() {
                    add(&format!("{place} {kind}"), &|| named(&object));
                }
            }
        }
        versions
    }
}

fn named(object: &impl kube::ResourceExt) -> (String, String) {
    let namespace = object.namespace().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    (format!("{namespace}/{}", object.name_any()), version)
}
