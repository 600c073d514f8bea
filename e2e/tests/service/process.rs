//! Schedulers and other programs that a test runs as separate processes.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_e2e::Program;
use berth_e2e::program::command;

/// Arguments with which processes listen at free ports or at no port, so that their ports do not conflict.
pub(crate) const ANY_PORT: [&str; 2] = [
    "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=0",
];

/// Returns a command that runs Berth's program under this name. The command ignores the configuration of the user.
pub(crate) fn program(name: &str) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
    command.arg0(name);
    command
}

/// Runs Berth's program under this name until it exits, and returns its output.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Output {
    program(name).args(arguments).output().unwrap()
}

/// Starts a scheduler under the name `karmada-scheduler`. Its log is written to a file in the folder.
pub(crate) fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Program {
    start_in(folder, kubeconfig, arguments, &[])
}

/// Starts a scheduler as [`start`] does, with additional environment variables.
pub(crate) fn start_in(
    folder: &Path,
    kubeconfig: &Path,
    arguments: &[&str],
    environment: &[(&str, &Path)],
) -> Program {
    let mut command = program("karmada-scheduler");
    command.envs(environment.iter().copied());
    spawn(command, folder, kubeconfig, arguments)
}

/// Starts Berth's program under another name.
pub(crate) fn start_as(
    name: &str,
    folder: &Path,
    kubeconfig: &Path,
    arguments: &[&str],
) -> Program {
    spawn(program(name), folder, kubeconfig, arguments)
}

fn spawn(mut command: Command, folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Program {
    static NEXT_LOG: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT_LOG.fetch_add(1, Ordering::Relaxed);
    let log = folder.join(format!("scheduler-{number}.log"));
    command
        .args(arguments)
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    Program::start(&mut command, &log)
}
