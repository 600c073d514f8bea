//! Processes of `berth` that tests can kill and restart.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_e2e::Program;
use berth_e2e::program::command;

/// A `berth` process, with the command for a restart. Its log includes the output before restarts.
pub(crate) struct Process {
    pub(crate) program: Program,
    command: Command,
    log: PathBuf,
}

impl Process {
    /// Starts `berth` with these arguments. The process logs to `NAME.log` beside the kubeconfig.
    pub(crate) fn start(name: &str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_with_environment(name, kubeconfig, arguments, &[])
    }

    /// Starts `berth` as [`Self::start`] does, with additional environment variables.
    pub(crate) fn start_with_environment(
        name: &str,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> Self {
        let log = kubeconfig.with_file_name(format!("{name}.log"));
        let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
        command
            .args(arguments)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .env("HOME", kubeconfig.with_file_name(""))
            .env("RUST_LOG", "warn")
            .envs(environment.iter().copied());
        Self {
            program: Program::start(&mut command, &log),
            command,
            log,
        }
    }

    /// Kills the process with SIGKILL and starts it again.
    pub(crate) fn kill_and_restart(&mut self) {
        self.program.kill();
        self.program = Program::start(&mut self.command, &self.log);
    }
}
