//! A component of Berth as a local process, with the command line of its Deployment.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use crate::control_plane::ControlPlane;

/// The number of started components, which makes the names of their logs unique.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A running component. The process is killed when the value is dropped.
pub(crate) struct Component {
    child: Child,
    log: PathBuf,
}

impl Drop for Component {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            println!("{}:\n{log}", self.log.display());
        }
    }
}

impl Component {
    /// Starts the command of a Deployment with the additional arguments `more`. `kubeconfig` replaces the path in the
    /// flag `--kubeconfig`, if the command has this flag. Free local ports replace the bind addresses.
    pub(crate) async fn start(
        plane: &ControlPlane,
        deployment: &str,
        kubeconfig: &Path,
        more: &[&str],
    ) -> Self {
        let deployments: Api<Deployment> = Api::namespaced(plane.client.clone(), "karmada-system");
        let stored = deployments.get(deployment).await.unwrap();
        let pod = stored.spec.unwrap().template.spec.unwrap();
        let command = pod.containers[0].command.clone().unwrap();
        assert_eq!(command[0], "berth");
        let arguments = command[1..]
            .iter()
            .map(|argument| match argument.split_once('=') {
                Some(("--kubeconfig", _)) => format!("--kubeconfig={}", kubeconfig.display()),
                Some((flag, _)) if flag.ends_with("-bind-address") => {
                    format!("{flag}=127.0.0.1:0")
                }
                _ => argument.clone(),
            });
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = plane.folder().join(format!("{deployment}-{number}.log"));
        let output = File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_berth-program"))
            .args(arguments)
            .args(more)
            .env("HOME", "/nonexistent")
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Returns the exit status if the process has exited.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Returns the log output of the process.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}
