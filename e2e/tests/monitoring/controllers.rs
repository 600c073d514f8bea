//! The scene of the tests of endpoints: an embedded control plane with simulated members and a scheduler, and processes
//! of `berth controllers`.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_e2e::eventually;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The name of the first member.
pub(crate) const MEMBER: &str = "member1";

/// A running control plane with two members and a scheduler.
pub(crate) struct Scene {
    plane: ControlPlane,
    folder: tempfile::TempDir,
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
        Self { plane, folder }
    }

    pub(crate) async fn stop(self) {
        self.plane.stop().await;
    }

    /// Returns a client of the control plane.
    pub(crate) fn client(&self) -> Client {
        self.plane.server().client()
    }

    /// Returns a client of the first member.
    pub(crate) fn member(&self) -> Client {
        self.plane.members()[0].server().client()
    }

    /// Starts `berth controllers` with these additional arguments. `name` is the name of the log file.
    pub(crate) fn start_controllers(&self, name: &str, arguments: &[&str]) -> Controllers {
        let (folder, log) = (self.folder.path(), self.folder.path().join(name));
        let output = File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_berth-program"))
            .arg("controllers")
            .arg(format!(
                "--kubeconfig={}",
                folder.join("kubeconfig").display()
            ))
            .arg("--metrics-bind-address=0")
            .arg("--health-probe-bind-address=127.0.0.1:0")
            .arg("--cluster-status-update-frequency=1s")
            .args(arguments)
            .env("HOME", folder)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Controllers { child, log }
    }

    /// Creates objects in the control plane.
    pub(crate) async fn create(&self, objects: &[Value]) {
        for object in objects {
            let (api, _) = self.api(object);
            let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    /// Sends a merge patch of an object of the control plane.
    pub(crate) async fn change(&self, object: &Value, changes: Value) {
        let (api, name) = self.api(object);
        let patch = Patch::Merge(&changes);
        let result = api.patch(&name, &PatchParams::default(), &patch).await;
        result.unwrap();
    }

    /// Deletes an object of the control plane.
    pub(crate) async fn delete(&self, object: &Value) {
        let (api, name) = self.api(object);
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until an object exists in the first member, or no longer exists if `exists` is false.
    pub(crate) async fn wait_for_member(&self, object: &Value, exists: bool) {
        let (api, name) = api(self.member(), object);
        eventually(
            &format!("{name} in {MEMBER}: {exists}"),
            async || match api.get_opt(&name).await {
                Ok(found) if found.is_some() == exists => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
        .await;
    }

    fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        api(self.client(), object)
    }
}

fn api(client: Client, object: &Value) -> (Api<DynamicObject>, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion").unwrap(), text("/kind").unwrap());
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api = match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    (api, text("/metadata/name").unwrap().to_owned())
}

/// A process of `berth controllers`. The process is killed when the value is dropped.
pub(crate) struct Controllers {
    child: Child,
    log: PathBuf,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

impl Controllers {
    /// Returns the log output of the process.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log contains a text.
    pub(crate) async fn wait_for_log(&self, text: &str) {
        eventually(&format!("{text:?} in the log"), async || {
            let log = self.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
        .await;
    }

    /// Waits until the process serves its probes and metrics, and returns the port.
    pub(crate) async fn port(&self) -> u16 {
        eventually("the address of the endpoints", async || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("serving health"));
            let port = line.and_then(|line| line.rsplit(':').next()?.trim().parse().ok());
            port.ok_or(log)
        })
        .await
    }
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
