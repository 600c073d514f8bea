//! Schedulers and other programs that a test runs as separate processes.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_e2e::eventually;

/// Arguments with which processes listen at free ports or at no port, so that their ports do not conflict.
pub(crate) const ANY_PORT: [&str; 2] = [
    "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=0",
];

/// A running process, which is killed when this value is dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs Berth's program under this name. The command ignores the configuration of the user.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-program"));
    command
        .arg0(name)
        .env("HOME", "/nonexistent")
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Runs Berth's program under this name until it exits, and returns its output.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Output {
    program(name).args(arguments).output().unwrap()
}

impl Process {
    /// Starts a scheduler under the name `karmada-scheduler`. Its log is written to a file in the folder.
    pub(crate) fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_in(folder, kubeconfig, arguments, &[])
    }

    /// Starts a scheduler as [`Self::start`] does, with additional environment variables.
    pub(crate) fn start_in(
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> Self {
        let mut command = program("karmada-scheduler");
        command.envs(environment.iter().copied());
        Self::spawn(command, folder, kubeconfig, arguments)
    }

    /// Starts Berth's program under another name.
    pub(crate) fn start_as(
        name: &str,
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Self {
        Self::spawn(program(name), folder, kubeconfig, arguments)
    }

    fn spawn(mut command: Command, folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Self {
        static NEXT_LOG: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT_LOG.fetch_add(1, Ordering::Relaxed);
        let log = folder.join(format!("scheduler-{number}.log"));
        let file = File::create(&log).unwrap();
        let child = command
            .args(arguments)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Returns the content of the log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log contains a text, and returns the rest of the line after this text.
    pub(crate) async fn wait_for_log(&self, text: &str) -> String {
        eventually(&format!("{text:?} in the log"), async || {
            let log = self.log();
            let rest = log.split_once(text).map(|(_, rest)| rest);
            match rest.and_then(|rest| rest.split_once('\n')) {
                Some((line, _)) => Ok(line.to_owned()),
                None => Err(log),
            }
        })
        .await
    }

    /// Sends a signal to the process. `name` is the name of the signal without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the process has exited.
    pub(crate) async fn wait_for_exit(&mut self) -> ExitStatus {
        eventually("the process to exit", async || {
            match self.child.try_wait().unwrap() {
                Some(status) => Ok(status),
                None => Err(std::fs::read_to_string(&self.log).unwrap()),
            }
        })
        .await
    }
}
