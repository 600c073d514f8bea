//! The scene of the tests of endpoints: an embedded control plane with simulated members and a scheduler, and processes
//! of `berth controllers`.

use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_e2e::program::command;
use berth_e2e::{Objects, Program, eventually};
use kube::Client;
use serde_json::{Value, json};

/// The name of the first member.
pub(crate) const MEMBER: &str = "member1";

/// A running control plane with two members and a scheduler.
pub(crate) struct Scene {
    plane: ControlPlane,
    client: Client,
    folder: tempfile::TempDir,
}

impl Objects for Scene {
    fn client(&self) -> &Client {
        &self.client
    }
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let arguments = UpArgs {
            port: 0,
            members: 2,
            without: vec![DisabledComponent::Controllers],
            ..UpArgs::default()
        };
        let plane = ControlPlane::start(&arguments).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(kubeconfig, plane.server().kubeconfig("berth")).unwrap();
        Self {
            client: plane.server().client(),
            plane,
            folder,
        }
    }

    pub(crate) async fn stop(self) {
        self.plane.stop().await;
    }

    /// Returns a client of the first member.
    pub(crate) fn member(&self) -> Client {
        self.plane.members()[0].server().client()
    }

    /// Starts `berth controllers` with these additional arguments. `name` is the name of the log file.
    pub(crate) fn start_controllers(&self, name: &str, arguments: &[&str]) -> Program {
        let folder = self.folder.path();
        let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
        command
            .arg("controllers")
            .arg(format!(
                "--kubeconfig={}",
                folder.join("kubeconfig").display()
            ))
            .arg("--metrics-bind-address=0")
            .arg("--health-probe-bind-address=127.0.0.1:0")
            .arg("--cluster-status-update-frequency=1s")
            .args(arguments);
        Program::start(&mut command, &folder.join(name))
    }

    /// Creates objects in the control plane.
    pub(crate) async fn create_all(&self, objects: &[Value]) {
        for object in objects {
            self.create(object).await.unwrap();
        }
    }

    /// Waits until an object exists in the first member, or no longer exists if `exists` is false.
    pub(crate) async fn wait_for_member(&self, object: &Value, exists: bool) {
        let member = self.member();
        if exists {
            member.wait_until_exists(object).await;
        } else {
            member.wait_until_gone(object).await;
        }
    }
}

/// Waits until a process serves its probes and metrics, and returns the port.
pub(crate) async fn port_of(controllers: &Program) -> u16 {
    eventually("the address of the endpoints", async || {
        let log = controllers.log();
        let line = log.lines().find(|line| line.contains("serving health"));
        let port = line.and_then(|line| line.rsplit(':').next()?.trim().parse().ok());
        port.ok_or(log)
    })
    .await
}

/// Returns a ConfigMap.
pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default" }, "data": { "a": "1" },
    })
}

/// Returns a policy that propagates all ConfigMaps of the namespace `default` to both members. `spec` adds or
/// replaces fields of its spec.
pub(crate) fn policy(name: &str, spec: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
            "placement": { "clusterAffinity": { "clusterNames": ["member1", "member2"] } },
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][field] = value.clone();
    }
    policy
}
