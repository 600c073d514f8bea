//! Programs that a test runs as processes.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::eventually::eventually;

/// Number of log lines that a failing test prints.
const TAIL: usize = 60;

/// Returns a command that ignores the configuration of the user.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("HOME", "/nonexistent")
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Returns a local port that no process uses.
///
/// # Panics
/// If no port is free.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A running process, which logs to a file. The process is killed when the value is dropped. The last lines of the log
/// are printed if the test fails.
#[derive(Debug)]
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("{}", self.tail());
        }
    }
}

#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
impl Program {
    /// Starts a process. Its output is appended to the file `log`.
    ///
    /// # Panics
    /// If the process cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let started = Self::try_start(command, log);
        started.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Starts a process as [`Self::start`] does.
    ///
    /// # Errors
    /// If the log cannot be opened, or the process cannot be started.
    pub fn try_start(command: &mut Command, log: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let output = options.create(true).append(true).open(log)?;
        command.stdout(output.try_clone()?).stderr(output);
        Ok(Self {
            child: command.spawn()?,
            log: log.to_owned(),
        })
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal to the process. `name` is the name of the signal without `SIG`.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Returns the exit status if the process has exited.
    ///
    /// # Panics
    /// If the status cannot be read.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the process has exited, and returns its status.
    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        eventually("the process to exit", async || {
            self.exit_status().ok_or_else(|| self.log())
        })
        .await
    }

    /// Returns the output of the process so far.
    pub fn log(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Returns the path and the last lines of the log.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(TAIL);
        format!("{}:\n{}", self.log.display(), lines[last..].join("\n"))
    }

    /// Waits until the log contains a text, and returns the rest of the line after this text.
    pub async fn wait_for_log(&self, text: &str) -> String {
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
}
