//! The part of a control plane that is the same for all sides: a new kube-apiserver with Karmada's definitions, and
//! the admission webhooks of `berth webhook`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::program::RunningProgram;
use crate::kube_apiserver::KubeApiserver;
use crate::load::LoadError;
use crate::load::up_process::UpProcess;

/// Time limit until the webhooks are served.
const WEBHOOKS: Duration = Duration::from_mins(1);
/// The manifest of the webhook configurations, whose webhooks name a Service.
const CONFIGURATIONS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/webhook/configurations.yaml"
);
const FLAGS: [&str; 6] = [
    "webhook",
    "--self-managed-certificates",
    "--bind-address=127.0.0.1",
    "--secure-port=0",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=127.0.0.1:0",
];

pub(super) struct ControlPlane {
    client: Client,
    server: KubeApiserver,
    /// The process of the admission webhooks.
    webhooks: Option<RunningProgram>,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// Starts the servers with the programs in `assets`.
    pub(super) async fn start(assets: &Path) -> Result<Self, LoadError> {
        let folder =
            tempfile::tempdir().map_err(|error| LoadError::Unexpected(error.to_string()))?;
        let server = KubeApiserver::start(assets, folder.path()).await;
        let client = server.client().await;
        let mut plane = Self {
            client,
            server,
            webhooks: None,
            folder,
        };
        let prepared = berth_up::bootstrap::prepare(&plane.client, &[]).await;
        prepared.map_err(|error| LoadError::Unexpected(error.to_string()))?;
        plane.ensure_namespaces().await?;
        plane.start_webhooks().await?;
        Ok(plane)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig()
    }

    /// Returns the folder of the logs.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Registers a member.
    pub(super) async fn join(&self, fleet: &UpProcess, number: usize) -> Result<(), LoadError> {
        let name = format!("member{number}");
        let mut command = self.own_program()?;
        command
            .arg("join")
            .arg(&name)
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!(
                "--cluster-kubeconfig={}",
                fleet.kubeconfig().display()
            ))
            .arg(format!("--cluster-context={name}"));
        let joining = tokio::task::spawn_blocking(move || command.output());
        let joined = joining.await.map_err(std::io::Error::other).flatten();
        let output = joined.map_err(|error| LoadError::Unexpected(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(LoadError::Unexpected(format!(
            "berth join {name}: {reason}"
        )))
    }

    fn own_program(&self) -> Result<Command, LoadError> {
        let program = std::env::current_exe();
        let program = program.map_err(|error| LoadError::Unexpected(error.to_string()))?;
        let mut command = Command::new(program);
        // Commands keep files about the user's control planes below the home folder.
        command.env("HOME", self.folder());
        Ok(command)
    }

    async fn ensure_namespaces(&self) -> Result<(), LoadError> {
        for name in ["karmada-system", "karmada-cluster"] {
            let created = self
                .create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
                .await;
            match created {
                Err(LoadError::Server(kube::Error::Api(status))) if status.code == 409 => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Starts `berth webhook`, and registers its webhooks by their address.
    async fn start_webhooks(&mut self) -> Result<(), LoadError> {
        let mut command = self.own_program()?;
        command
            .args(FLAGS)
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()));
        let mut program = RunningProgram::start(command, self, "berth webhook")?;
        let began = Instant::now();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "karmada-system");
        let (port, authority) = loop {
            program.check_running()?;
            let secret = secrets.get_opt("berth-webhook-cert").await?;
            let authority = secret.and_then(|secret| secret.data?.remove("ca.crt"));
            if let (Some(port), Some(authority)) = (served_port(&program.output()), authority) {
                break (port, STANDARD.encode(authority.0));
            }
            if began.elapsed() > WEBHOOKS {
                return Err(LoadError::Timeout {
                    what: "starting berth webhook".to_owned(),
                    limit: WEBHOOKS,
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let unreadable = |error: &dyn std::fmt::Display| {
            LoadError::Unexpected(format!("{CONFIGURATIONS}: {error}"))
        };
        let text = std::fs::read_to_string(CONFIGURATIONS).map_err(|error| unreadable(&error))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| unreadable(&error))?;
        for mut configuration in documents {
            let webhooks = configuration["webhooks"].as_array_mut();
            for webhook in webhooks.into_iter().flatten() {
                let path = webhook["clientConfig"]["service"]["path"].clone();
                let path = path.as_str().unwrap_or_default();
                webhook["clientConfig"] = json!({
                    "url": format!("https://localhost:{port}{path}"), "caBundle": authority });
            }
            self.create(&configuration).await?;
        }
        self.webhooks = Some(program);
        Ok(())
    }

    /// Creates an object without a namespace.
    async fn create(&self, object: &Value) -> Result<(), LoadError> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or_else(|| ("", text("apiVersion")));
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let object = serde_json::from_value(object.clone());
        let object = object.map_err(|error| LoadError::Unexpected(error.to_string()))?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }
}

/// Returns the port from the log line of a webhook server that listens.
fn served_port(output: &str) -> Option<u16> {
    let line = output
        .lines()
        .find(|line| line.contains("serving admission webhooks"))?;
    let (_, address) = line.split_once("address=")?;
    let address = address.split([' ', '"']).find(|part| !part.is_empty())?;
    address.rsplit(':').next()?.parse().ok()
}
