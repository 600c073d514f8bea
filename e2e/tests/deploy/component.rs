//! A component of Berth as a local process, with the command line of its Deployment.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_e2e::Program;
use berth_e2e::program::command;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use crate::control_plane::ControlPlane;

/// The number of started components, which makes the names of their logs unique.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Starts the command of a Deployment with the additional arguments `more`. `kubeconfig` replaces the path in the flag
/// `--kubeconfig`, if the command has this flag. Free local ports replace the bind addresses.
pub(crate) async fn start(
    plane: &ControlPlane,
    deployment: &str,
    kubeconfig: &Path,
    more: &[&str],
) -> Program {
    let deployments: Api<Deployment> = Api::namespaced(plane.client.clone(), "karmada-system");
    let stored = deployments.get(deployment).await.unwrap();
    let pod = stored.spec.unwrap().template.spec.unwrap();
    let of_pod = pod.containers[0].command.clone().unwrap();
    assert_eq!(of_pod[0], "berth");
    let arguments = of_pod[1..]
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
    let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
    Program::start(command.args(arguments).args(more), &log)
}
