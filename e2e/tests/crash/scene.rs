//! The scene of a crash test: an embedded control plane with simulated members, and the processes of the controllers
//! and the scheduler.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use berth::up::{ControlPlane, DisabledComponent, UpArgs};
use berth_component_base::program::logging::LogArgs;
use berth_e2e::objects::handle;
use berth_e2e::{Objects as _, eventually};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::Value;
use tokio::time::Instant;

use crate::numbers::Numbers;
use crate::processes::Process;
use crate::state::{self, State, differences};

/// Names of the member clusters.
pub(crate) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// A running control plane with its members, and the processes that [`Self::kill`] kills.
pub(crate) struct Scene {
    plane: ControlPlane,
    folder: tempfile::TempDir,
    processes: Mutex<Vec<Process>>,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        berth_component_base::program::logging::init(&LogArgs::default(), "off");
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

    /// Starts the controllers without leader election. With leader election, restarted controllers would wait until the
    /// lease of the killed process expires.
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

    /// Kills and restarts the controllers, the scheduler or both, at random.
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

    /// Returns a client of a member, or of the control plane if `member` is `None`.
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

    /// Returns a snapshot of the control plane and all members.
    pub(crate) async fn state(&self) -> State {
        let mut all = State::new();
        state::collect(&mut all, "", &self.client(None), state::CONTROL_PLANE_KINDS).await;
        for member in MEMBERS {
            let client = self.client(Some(member));
            state::collect(&mut all, member, &client, state::MEMBER_KINDS).await;
        }
        all
    }

    /// Waits until all bindings except that of [`state::TAKEN`] are fully applied, and no object has changed for
    /// `quiet_time`. Returns the final state.
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
        self.client(member).apply(manifest.clone()).await;
    }

    /// Sends a merge patch of an object. A missing object is ignored.
    pub(crate) async fn edit(&self, member: Option<&str>, object: &Value, changes: Value) {
        let (api, name) = handle(&self.client(member), object);
        let patch = Patch::Merge(&changes);
        ignore_not_found(api.patch(&name, &PatchParams::default(), &patch).await);
    }

    /// Deletes an object. A missing object is ignored.
    pub(crate) async fn delete(&self, member: Option<&str>, object: &Value) {
        let (api, name) = handle(&self.client(member), object);
        ignore_not_found(api.delete(&name, &DeleteParams::background()).await);
    }

    /// Waits until a deleted template no longer exists, so that its name is free again.
    pub(crate) async fn wait_until_gone(&self, object: &Value) {
        self.client(None).wait_until_gone(object).await;
    }
}

/// Panics if a request failed with an error other than 404.
fn ignore_not_found<T>(outcome: Result<T, kube::Error>) {
    match outcome {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{error}"),
    }
}
