//! A fixture for tests of the detector: a control plane with a detector. No scheduler runs, so that only the detector
//! writes bindings.

use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::{Admission, Server, ServerConfig};
use berth_controllers::detector::{self, DetectorOptions};
use berth_controllers::monitor::Monitor;
use berth_controllers::recent_templates::RecentTemplates;
use berth_e2e::events::{self, Wanted};
use berth_e2e::{KubeApiserver, Objects, eventually, objects};
use berth_up::admission::KarmadaAdmission;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::webhook_fixture::WebhookPlane;

/// A running control plane with a detector.
pub struct Fixture {
    pub client: kube::Client,
    server: Backend,
    gates: FeatureGates,
    shutdown: CancellationToken,
    detector: JoinHandle<()>,
}

/// The API server of a fixture. Dropping a kube-apiserver stops it.
enum Backend {
    Embedded(Box<Server>),
    KubeApiserver(
        #[expect(dead_code, reason = "lives as long as the fixture")] KubeApiserver,
        #[expect(dead_code, reason = "lives as long as the server")] tempfile::TempDir,
    ),
    Webhook(#[expect(dead_code, reason = "lives as long as the fixture")] WebhookPlane),
}

impl Objects for Fixture {
    fn client(&self) -> &kube::Client {
        &self.client
    }
}

impl Fixture {
    /// Starts a fixture with Karmada's admission rules and the default feature gates.
    pub async fn start() -> Self {
        Self::start_with(vec![Arc::new(KarmadaAdmission)], FeatureGates::default()).await
    }

    /// Starts a fixture with Karmada's admission rules and these feature gates.
    pub async fn with_gates(gates: FeatureGates) -> Self {
        Self::start_with(vec![Arc::new(KarmadaAdmission)], gates).await
    }

    /// Starts a fixture with an embedded server without admission rules, which behaves like a server without webhooks.
    pub async fn embedded_without_admission() -> Self {
        Self::start_with(Vec::new(), FeatureGates::default()).await
    }

    /// Starts a fixture without webhooks. The server is kube-apiserver if `KUBEBUILDER_ASSETS` is set, and otherwise
    /// the embedded server.
    pub async fn without_webhooks() -> Self {
        let Some(assets) = KubeApiserver::assets() else {
            return Self::embedded_without_admission().await;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let server = KubeApiserver::start(&assets, folder.path()).await;
        let client = server.client().await;
        berth_up::bootstrap::prepare(&client, &[]).await.unwrap();
        Self::run(
            client,
            Backend::KubeApiserver(server, folder),
            FeatureGates::default(),
        )
    }

    /// Starts a fixture with kube-apiserver and `berth webhook`.
    pub async fn with_webhook() -> Self {
        let plane = WebhookPlane::start().await;
        Self::run(
            plane.client.clone(),
            Backend::Webhook(plane),
            FeatureGates::default(),
        )
    }

    async fn start_with(admission: Vec<Arc<dyn Admission>>, gates: FeatureGates) -> Self {
        let server = Server::start(ServerConfig {
            admission,
            ..ServerConfig::default()
        })
        .await
        .unwrap();
        for definition in berth_api::crds::all() {
            server.install_crd(definition).await.unwrap();
        }
        let client = server.client();
        Self::run(client, Backend::Embedded(Box::new(server)), gates)
    }

    fn run(client: kube::Client, server: Backend, gates: FeatureGates) -> Self {
        let shutdown = CancellationToken::new();
        let detector = run_detector(&client, gates, &shutdown);
        Self {
            client,
            server,
            gates,
            shutdown,
            detector,
        }
    }

    /// Stops the detector, and starts another detector.
    pub async fn restart_detector(&mut self) {
        self.shutdown.cancel();
        self.shutdown = CancellationToken::new();
        let next = run_detector(&self.client, self.gates, &self.shutdown);
        std::mem::replace(&mut self.detector, next).await.unwrap();
    }

    /// Stops the detector and the embedded server. Fails the test if the detector failed.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.detector.await.unwrap();
        if let Backend::Embedded(server) = self.server {
            server.shutdown().await;
        }
    }

    /// Returns the API of a kind, such as `("apps/v1", "Deployment")`. The API of a namespaced kind is for the
    /// namespace `default`.
    pub fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let namespaced = json!({ "apiVersion": api_version, "kind": kind });
        objects::api_of(&self.client, &namespaced, "default")
    }

    /// Creates an object.
    pub async fn create(&self, object: Value) {
        let created = Objects::create(self, &object).await;
        created.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Returns the stored object, or null if it does not exist.
    pub async fn get(&self, object: &Value) -> Value {
        Objects::get(self, object).await.unwrap_or_default()
    }

    /// Returns the binding of a template, or null if it does not exist.
    pub async fn binding(&self, template: &Value) -> Value {
        let name =
            berth_api::names::binding_name(template["kind"].as_str().unwrap(), name_of(template));
        let kind = match template["kind"].as_str() {
            Some("ClusterRole") => "ClusterResourceBinding",
            _ => "ResourceBinding",
        };
        let api = self.api("work.karmada.io/v1alpha2", kind);
        serde_json::to_value(api.get_opt(&name).await.unwrap()).unwrap()
    }

    /// Waits until the binding of a template meets a condition, and returns it.
    pub async fn until_binding(
        &self,
        template: &Value,
        description: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(description, async || {
            let binding = self.binding(template).await;
            if condition(&binding) {
                Ok(binding)
            } else {
                Err(format!("the binding is {binding}"))
            }
        })
        .await
    }

    /// Waits until an object meets a condition, and returns it.
    pub async fn until(
        &self,
        object: &Value,
        description: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(description, async || {
            let stored = self.get(object).await;
            if condition(&stored) {
                Ok(stored)
            } else {
                Err(format!("the object is {stored}"))
            }
        })
        .await
    }

    /// Waits for an event about an object, and returns the message of the event.
    pub async fn until_event(&self, name: &str, reason: &str) -> String {
        let wanted = Wanted {
            name,
            reason,
            ..Wanted::default()
        };
        events::wait_for_message(&self.client, "default", wanted).await
    }

    /// Returns the reason and the count of each `Warning` event about an object.
    pub async fn warnings(&self, name: &str) -> Vec<String> {
        let events = events::in_namespace(&self.client, "default").await;
        let wanted = Wanted {
            name,
            event_type: "Warning",
            ..Wanted::default()
        };
        let warnings = events.into_iter().filter(|event| wanted.matches(event));
        warnings
            .map(|event| {
                let count = event.count.unwrap_or(1);
                format!("{} x{count}", event.reason.unwrap_or_default())
            })
            .collect()
    }

    /// Waits until the detector has handled all Deployments and policies that were created earlier. For this, creates a
    /// marker Deployment with a policy, and waits for the binding of the marker.
    pub async fn wait_for_marker(&self, name: &str) {
        let marker = deployment(name);
        self.create(marker.clone()).await;
        self.create(policy(name, name, json!({}))).await;
        self.until_binding(&marker, "the marker's binding", |binding| {
            !binding.is_null()
        })
        .await;
    }
}

fn run_detector(
    client: &kube::Client,
    gates: FeatureGates,
    shutdown: &CancellationToken,
) -> JoinHandle<()> {
    let options = DetectorOptions {
        gates,
        ..DetectorOptions::default()
    };
    let running = detector::run(
        client.clone(),
        options,
        RecentTemplates::default(),
        Monitor::default(),
        shutdown.clone(),
    );
    tokio::spawn(async move { running.await.unwrap() })
}

pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Returns a Deployment with two replicas in the namespace `default`.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

/// Returns a PropagationPolicy for a Deployment. `spec` sets further fields of the spec.
pub fn policy(name: &str, deployment: &str, spec: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy
}

/// Returns the name of the policy that has claimed an object, from the annotations of the object.
pub fn claimed_by(object: &Value) -> Option<&str> {
    let annotations = &object["metadata"]["annotations"];
    annotations["propagationpolicy.karmada.io/name"]
        .as_str()
        .or_else(|| annotations["clusterpropagationpolicy.karmada.io/name"].as_str())
}
