//! Processes of `berth` that tests can kill and restart.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use berth_e2e::eventually;

/// A `berth` process, with the arguments and environment for a restart. The process is killed when the value is
/// dropped.
pub(crate) struct Process {
    name: &'static str,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("{}:\n{}", self.name, self.log());
        }
    }
}

impl Process {
    /// Starts `berth` with these arguments. The process logs to `NAME.log` beside the kubeconfig.
    pub(crate) fn start(name: &'static str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_with_environment(name, kubeconfig, arguments, &[])
    }

    /// Starts `berth` as [`Self::start`] does, with additional environment variables.
    pub(crate) fn start_with_environment(
        name: &'static str,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&'static str, &Path)],
    ) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let variables = environment.iter();
        let environment: Vec<_> = variables
            .map(|(key, path)| (*key, path.to_path_buf()))
            .collect();
        let log = log_path(name, kubeconfig);
        Self {
            name,
            kubeconfig: kubeconfig.to_owned(),
            child: spawn(&log, kubeconfig, &arguments, &environment),
            arguments,
            environment,
        }
    }

    /// Kills the process with SIGKILL and starts it again.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        let log = log_path(self.name, &self.kubeconfig);
        self.child = spawn(&log, &self.kubeconfig, &self.arguments, &self.environment);
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM to the process.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(sent.unwrap().success());
    }

    /// Reports whether the process is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the process exits, and returns its status.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        eventually("the process to end", async || {
            self.child.try_wait().unwrap().ok_or("it still runs")
        })
        .await
    }

    /// Returns the log output of the process, including the output before restarts.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(log_path(self.name, &self.kubeconfig)).unwrap_or_default()
    }
}

fn log_path(name: &str, kubeconfig: &Path) -> PathBuf {
    kubeconfig.with_file_name(format!("{name}.log"))
}

fn spawn(
    log: &Path,
    kubeconfig: &Path,
    arguments: &[String],
    environment: &[(&str, PathBuf)],
) -> Child {
    let home = kubeconfig.with_file_name("");
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true).open(log).unwrap();
    Command::new(env!("CARGO_BIN_EXE_berth-program"))
        .args(arguments)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env("HOME", home)
        .env_remove("KUBECONFIG")
        .env("RUST_LOG", "warn")
        .envs(environment.iter().map(|(key, path)| (key, path)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
