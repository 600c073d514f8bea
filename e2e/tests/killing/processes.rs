//! The controllers and the scheduler, each as a process that can be killed and started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use berth_e2e::eventually;

/// A process, and how it was started.
pub(crate) struct Process {
    name: &'static str,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            println!("{}:\n{}", self.name, self.log());
        }
    }
}

impl Process {
    /// `berth` with these arguments; the name is that of its log.
    pub(crate) fn start(name: &'static str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_in(name, kubeconfig, arguments, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_in(
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
        let log = log(name, kubeconfig);
        Self {
            name,
            kubeconfig: kubeconfig.to_owned(),
            child: spawn(&log, kubeconfig, &arguments, &environment),
            arguments,
            environment,
        }
    }

    /// SIGKILL, and at once another one.
    pub(crate) fn kill_and_start(&mut self) {
        self.end();
        let log = log(self.name, &self.kubeconfig);
        self.child = spawn(&log, &self.kubeconfig, &self.arguments, &self.environment);
    }

    /// SIGKILL.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(sent.unwrap().success());
    }

    /// Whether it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        eventually("the process to end", async || {
            self.child.try_wait().unwrap().ok_or("it runs")
        })
        .await
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(log(self.name, &self.kubeconfig)).unwrap_or_default()
    }
}

fn log(name: &str, kubeconfig: &Path) -> PathBuf {
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
