//! A kube-apiserver that calls `berth webhook`, with the manifests of `deploy/webhook`.
//!
//! The webhook configurations name a Service. This Service has the type `ExternalName` and resolves to the loopback
//! address, where the webhook runs.

use std::path::{Path, PathBuf};

use berth_e2e::detector_cases::api_of;
use berth_e2e::program::{command, free_port};
use berth_e2e::{KubeApiserver, Program, eventually};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::fixture::policy;

/// The label that protects an object from deletion.
pub const PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";

/// A running kube-apiserver, and the webhook that it calls.
pub struct WebhookPlane {
    pub client: Client,
    webhook: Option<Program>,
    port: u16,
    server: KubeApiserver,
    folder: tempfile::TempDir,
}

impl WebhookPlane {
    /// Starts the server and the webhook, and waits until the server calls the webhook. The test needs
    /// `#[needs(apiserver, kubectl)]`.
    pub async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let server = KubeApiserver::start(&KubeApiserver::assets().unwrap(), folder.path()).await;
        let client = server.client().await;
        berth_up::bootstrap::prepare(&client, &[]).await.unwrap();
        let mut plane = Self {
            client,
            webhook: None,
            port: free_port(),
            server,
            folder,
        };
        for file in ["deploy/namespace.yaml", "deploy/webhook/rbac.yaml"] {
            plane.apply(&repository().join(file));
        }
        let service = json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "karmada-webhook", "namespace": "karmada-system" },
            "spec": { "type": "ExternalName", "externalName": "localhost" } });
        plane.apply_text(&service.to_string());
        let file = repository().join("deploy/webhook/configurations.yaml");
        let shipped = std::fs::read_to_string(file).unwrap();
        let configurations = shipped.replace("port: 443,", &format!("port: {},", plane.port));
        assert_ne!(configurations, shipped);
        // Apply the configurations before the webhook starts. The webhook writes its CA bundle into them at its start,
        // and then only once a minute.
        plane.apply_text(&configurations);
        plane.start_webhook();
        plane.wait_until_called().await;
        plane
    }

    /// Starts the webhook with the rights of its ServiceAccount.
    pub fn start_webhook(&mut self) {
        let kubeconfig = self.server.kubeconfig_of("berth-webhook");
        let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
        command.args([
            "webhook",
            "--self-managed-certificates",
            "--bind-address=127.0.0.1",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            &format!("--secure-port={}", self.port),
            &format!("--kubeconfig={}", kubeconfig.display()),
        ]);
        let log = self.folder.path().join("webhook.log");
        self.webhook = Some(Program::start(&mut command, &log));
    }

    /// Kills the webhook.
    pub fn kill_webhook(&mut self) {
        self.webhook = None;
    }

    /// Creates an object. The server does not store the object if `dry_run` is set.
    pub async fn create(&self, object: &Value, dry_run: bool) -> Result<DynamicObject, String> {
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let parameters = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let api = api_of(&self.client, object);
        let created = api.create(&parameters, &dynamic).await;
        created.map_err(|error| error.to_string())
    }

    /// Deletes an object.
    pub async fn delete(&self, object: &Value) -> Result<(), String> {
        let name = object["metadata"]["name"].as_str().unwrap();
        let api = api_of(&self.client, object);
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    }

    /// Waits until the server uses the validating and the mutating configuration. The two may take effect at different
    /// times.
    async fn wait_until_called(&self) {
        let probe = protected("probe");
        self.create(&probe, false).await.unwrap();
        let dry_run = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        eventually("calls of the validating webhooks", async || {
            match api_of(&self.client, &probe).delete("probe", &dry_run).await {
                Err(error) if error.to_string().contains("This resource is protected") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        eventually("calls of the mutating webhooks", async || {
            let created = self
                .create(&policy("probe", "probe", json!({})), true)
                .await?;
            match created.metadata.labels {
                Some(_) => Ok(()),
                None => Err("no permanent id".to_owned()),
            }
        })
        .await;
    }

    fn apply_text(&self, text: &str) {
        let file = self.folder.path().join("objects.yaml");
        std::fs::write(&file, text).unwrap();
        self.apply(&file);
    }

    fn apply(&self, file: &Path) {
        let file = file.display().to_string();
        self.server
            .kubectl(&["apply", "--server-side", "--validate=strict", "-f", &file]);
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a ConfigMap with the label that forbids its deletion.
pub fn protected(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "labels": { PROTECTED: "Always" } } })
}
