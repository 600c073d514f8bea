//! An embedded control plane with simulated members, and the processes under test.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_e2e::eventually;
use berth_scheduler::process::logging::LogArgs;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::numbers::Numbers;
use crate::processes::Process;
use crate::state::{self, State, differences};

/// Names of the member clusters.
pub(crate) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

pub(crate) struct Scene {
    plane: ControlPlane,
    folder: tempfile::TempDir,
    processes: Mutex<Vec<Process>>,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_scheduler::process::logging::init(&LogArgs::default(), "off");
        let arguments = UpArgs {
            port: 0,
            members: MEMBERS.len(),
            without: vec![DisabledComponent::Controllers, DisabledComponent::Scheduler],
            ..UpArgs::default()
        };
        let plane = ControlPlane::start(&arguments).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let scene = Self {
            plane,
            folder,
            processes: Mutex::default(),
        };
        std::fs::write(scene.kubeconfig(), scene.plane.server().kubeconfig("berth")).unwrap();
        scene
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Starts controllers without leader election: after a kill, the old lease would have to expire first.
    pub(crate) fn start_controllers(&self) {
        let arguments = [
            "controllers",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            "--leader-elect=false",
            "--cluster-status-update-frequency=1s",
        ];
        let process = Process::start("controllers", &self.kubeconfig(), &arguments);
        self.processes.lock().unwrap().push(process);
    }

    pub(crate) fn start_scheduler(&self) {
        let arguments = [
            "scheduler",
            "--leader-elect=false",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
        ];
        let process = Process::start("scheduler", &self.kubeconfig(), &arguments);
        self.processes.lock().unwrap().push(process);
    }

    /// Kills and restarts the controllers, or sometimes the scheduler or both.
    pub(crate) fn kill(&self, numbers: &mut Numbers) {
        let victims: &[usize] = match numbers.below(6) {
            0 => &[0, 1],
            1 => &[1],
            _ => &[0],
        };
        let mut processes = self.processes.lock().unwrap();
        for victim in victims {
            processes[*victim].kill_and_restart();
        }
    }

    pub(crate) async fn stop(self) {
        self.processes.lock().unwrap().clear();
        self.plane.stop().await;
    }

    /// Returns a client of the control plane, or of a member.
    pub(crate) fn client(&self, member: Option<&str>) -> Client {
        let members = self.plane.members().iter();
        match member {
            None => self.plane.server().client(),
            Some(name) => {
                let mut named = members.filter(|member| member.name() == name);
                named.next().unwrap().server().client()
            }
        }
    }

    /// Returns the state of the control plane and all members.
    pub(crate) async fn state(&self) -> State {
        let mut all = State::new();
        state::collect(&mut all, "", &self.client(None), state::CONTROL_PLANE_KINDS).await;
        for member in MEMBERS {
            let client = self.client(Some(member));
            state::collect(&mut all, member, &client, state::MEMBER_KINDS).await;
        }
        all
    }

    /// Waits until all bindings that can be fully applied are, and nothing has changed for `quiet_time`.
    pub(crate) async fn wait_until_quiet(&self, quiet_time: Duration) -> State {
        let (mut last, mut since) = (State::new(), Instant::now());
        eventually(
            "all bindings to be applied, and no more changes",
            async || {
                let now = self.state().await;
                let changes = differences(&last, &now);
                if !changes.is_empty() {
                    (last, since) = (now, Instant::now());
                    return Err(changes.join("\n"));
                }
                let waiting = state::not_applied(&now);
                if !waiting.is_empty() {
                    return Err(waiting.join("\n"));
                }
                if since.elapsed() < quiet_time {
                    return Err("quiet, but not for long enough".to_owned());
                }
                Ok(())
            },
        )
        .await;
        last
    }

    /// Creates an object, or updates an existing one with a merge patch.
    pub(crate) async fn apply(&self, member: Option<&str>, manifest: &Value) {
        apply(self.client(member), manifest).await.unwrap();
    }

    /// Patches an object if it exists.
    pub(crate) async fn edit(&self, member: Option<&str>, object: &Value, changes: Value) {
        let (api, name) = handle(self.client(member), object);
        let patch = Patch::Merge(&changes);
        ignore_not_found(api.patch(&name, &PatchParams::default(), &patch).await);
    }

    /// Deletes an object if it exists.
    pub(crate) async fn delete(&self, member: Option<&str>, object: &Value) {
        let (api, name) = handle(self.client(member), object);
        ignore_not_found(api.delete(&name, &DeleteParams::background()).await);
    }

    /// Waits until a template is gone, so that its name is free again.
    pub(crate) async fn wait_until_gone(&self, object: &Value) {
        let (api, name) = handle(self.client(None), object);
        eventually(&format!("{name} to be gone"), async || {
            match api.get_opt(&name).await.unwrap() {
                None => Ok(()),
                Some(object) => Err(json!(object).to_string()),
            }
        })
        .await;
    }
}

/// Creates an object, or updates an existing one with a merge patch.
pub(crate) async fn apply(client: Client, manifest: &Value) -> kube::Result<()> {
    let (api, name) = handle(client, manifest);
    let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let patch = Patch::Merge(manifest);
            api.patch(&name, &PatchParams::default(), &patch).await?;
        }
        created => drop(created?),
    }
    Ok(())
}

/// Panics unless the request succeeded or the object was not found.
fn ignore_not_found<T>(outcome: Result<T, kube::Error>) {
    match outcome {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{error}"),
    }
}

fn handle(client: Client, object: &Value) -> (Api<DynamicObject>, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion").unwrap(), text("/kind").unwrap());
    let api = state::api(client, api_version, kind, text("/metadata/namespace"));
    (api, text("/metadata/name").unwrap().to_owned())
}

/// Returns the API resource of a kind.
pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
