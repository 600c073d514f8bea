//! The programs of a side, as the user names them, and their processes.

use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use super::control_plane::ControlPlane;
use crate::load::{LoadError, process};
use crate::program::Program as Process;

/// Text in a command that is replaced by the path of the kubeconfig.
const KUBECONFIG: &str = "{kubeconfig}";

/// A program of a side: `SIDE=COMMAND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the side.
    pub side: String,
    /// The words of the command. The first one is the program.
    words: Vec<String>,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (side, command) = text
            .split_once('=')
            .ok_or("name the side first: SIDE=COMMAND")?;
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if side.trim().is_empty() || words.is_empty() {
            return Err("name the side and the command: SIDE=COMMAND".to_owned());
        }
        if !command.contains(KUBECONFIG) {
            return Err(format!(
                "the command needs {KUBECONFIG}, for example --kubeconfig={KUBECONFIG}"
            ));
        }
        Ok(Self {
            side: side.trim().to_owned(),
            words,
        })
    }
}

impl Program {
    /// Starts the program on a control plane.
    pub(super) fn start(&self, plane: &ControlPlane) -> Result<RunningProgram, LoadError> {
        let kubeconfig = plane.kubeconfig().display().to_string();
        let command = self.command(&[(KUBECONFIG, &kubeconfig)]);
        let program = command.get_program().to_string_lossy().into_owned();
        RunningProgram::start(command, plane, &program)
    }

    /// Returns the command, with texts and their replacements.
    pub(in crate::load) fn command(&self, replaced: &[(&str, &str)]) -> Command {
        let mut words = self.words.iter().map(|word| {
            let replace = |word: String, (from, to): &(&str, &str)| word.replace(from, to);
            replaced.iter().fold(word.clone(), replace)
        });
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}

/// A process whose figures are measured.
pub(super) struct RunningProgram {
    process: Process,
    name: String,
}

impl RunningProgram {
    /// Starts a command. Its output is written to a file in the folder of the control plane.
    pub(super) fn start(
        mut command: Command,
        plane: &ControlPlane,
        name: &str,
    ) -> Result<Self, LoadError> {
        let log = plane.folder().join(format!("{}.log", uuid::Uuid::new_v4()));
        let started = Process::try_start(command.stdin(Stdio::null()), &log);
        let process = started
            .map_err(|error| LoadError::Unexpected(format!("cannot start {name}: {error}")))?;
        Ok(Self {
            process,
            name: name.to_owned(),
        })
    }

    /// Returns what the process has printed.
    pub(super) fn output(&self) -> String {
        self.process.log()
    }

    /// Returns an error with the last lines of the output if the process has ended.
    pub(super) fn check_running(&mut self) -> Result<(), LoadError> {
        let Some(status) = self.process.exit_status() else {
            return Ok(());
        };
        let (name, log) = (&self.name, self.process.tail());
        Err(LoadError::Unexpected(format!(
            "{name} ended with {status}\n{log}"
        )))
    }

    /// Returns the processor time that the process has used so far.
    pub(super) fn processor_time(&self) -> Duration {
        process::processor_time(self.process.id())
    }

    /// Returns the peak memory of the process, in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        process::peak_kib(self.process.id()) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_side_and_its_kubeconfig() {
        let program: Program = "ours=berth controllers --kubeconfig={kubeconfig}"
            .parse()
            .unwrap();
        assert_eq!(program.side, "ours");
        assert_eq!(
            program.words,
            ["berth", "controllers", "--kubeconfig={kubeconfig}"]
        );
        for (text, expected) in [
            ("berth scheduler {kubeconfig}", "name the side"),
            ("ours=", "name the side and the command"),
            ("ours=berth scheduler", "the command needs {kubeconfig}"),
        ] {
            let error = text.parse::<Program>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
