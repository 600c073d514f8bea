//! The controllers and the scheduler, each as a process that can be killed and started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What runs.
pub(crate) const PARTS: [&str; 2] = ["controllers", "scheduler"];

/// A process, and how it was started.
pub(crate) struct Process {
    part: &'static str,
    kubeconfig: PathBuf,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(log(self.part, &self.kubeconfig));
            println!("{}:\n{}", self.part, log.unwrap_or_default());
        }
    }
}

impl Process {
    pub(crate) fn start(part: &'static str, kubeconfig: &Path) -> Self {
        Self {
            part,
            kubeconfig: kubeconfig.to_owned(),
            child: spawn(part, kubeconfig),
        }
    }

    /// SIGKILL, and at once another one.
    pub(crate) fn kill_and_start(&mut self) {
        self.end();
        self.child = spawn(self.part, &self.kubeconfig);
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(part: &str, kubeconfig: &Path) -> PathBuf {
    kubeconfig.with_file_name(format!("{part}.log"))
}

fn spawn(part: &str, kubeconfig: &Path) -> Child {
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true);
    let log = log.open(self::log(part, kubeconfig)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-program"));
    command
        .arg(part)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        // The lease of one that was killed would have to expire first.
        .arg("--leader-elect=false");
    match part {
        "scheduler" => command.args(["--health-probe-bind-address=0", "--metrics-bind-address=0"]),
        _ => command.arg("--cluster-status-update-frequency=1s"),
    };
    command
        .env("HOME", "/nonexistent")
        .env_remove("KUBECONFIG")
        .env("RUST_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
