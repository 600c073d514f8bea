//! The entry point of the `berth` program, public for programs that add their own scheduler plugins.

use std::ffi::OsString;
use std::process::ExitCode;

use berth_component_base::program::command_line;
use berth_scheduler::SchedulerCommand;
use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};
use clap::CommandFactory as _;

use super::{Cli, Command, Failure, run_karmada_program, with_explicit_verbosity};
use crate::program_name::{self, Program};
use crate::version::VERSION;

/// The `berth` program, optionally with your own scheduler plugins.
///
/// Plugins run in `berth scheduler` and `berth replay`. They also run in `simulate`, `explain` and `dashboard` if these
/// commands use a scheduler configuration, from a file or from a running scheduler.
///
/// ```no_run
/// use berth::cli::BerthCommand;
/// use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};
///
/// fn new(_: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
///     Ok(Plugin::new("Mine"))
/// }
///
/// fn main() -> std::process::ExitCode {
///     BerthCommand::new().with_plugin("Mine", new).run()
/// }
/// ```
#[derive(Debug, Default)]
pub struct BerthCommand {
    scheduler: SchedulerCommand,
}

impl BerthCommand {
    /// Creates the program with the built-in plugins only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin. [`Self::run`] fails if another plugin has this name.
    #[must_use]
    pub fn with_plugin(
        mut self,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Self {
        self.scheduler = self.scheduler.with_plugin(name, factory);
        self
    }

    /// Runs the program that the file name of the executable selects, with the arguments of the process.
    pub fn run(self) -> ExitCode {
        let words: Vec<OsString> = std::env::args_os().collect();
        self.run_with(words)
    }

    /// Runs the program that the first word selects. The other words are its arguments.
    pub fn run_with(self, words: Vec<OsString>) -> ExitCode {
        let out_of_tree = match self.scheduler.into_plugins() {
            Ok(registry) => registry,
            Err(error) => return Failure::usage(error).report("berth"),
        };
        match program_name::select(words.first().map(OsString::as_os_str)) {
            Program::Berth { program_name } => {
                let command = program_name::renamed(Cli::command(), program_name);
                match command_line::parse::<Cli>(command, with_explicit_verbosity(words)) {
                    Ok(cli) => cli.run(program_name, out_of_tree),
                    Err(error) => command_line::refuse(&error),
                }
            }
            Program::Scheduler => SchedulerCommand::new()
                .named(program_name::SCHEDULER)
                .with_version(VERSION)
                .with_registry(out_of_tree)
                .run_with(words),
            Program::ControllerManager => run_karmada_program(
                program_name::CONTROLLER_MANAGER,
                "Run the controllers of a Karmada control plane",
                words,
                Command::Controllers,
            ),
            Program::Webhook => run_karmada_program(
                program_name::WEBHOOK,
                "Serve the admission webhooks of a Karmada control plane",
                words,
                |flags| Command::Webhook(Box::new(flags)),
            ),
            Program::Estimator => run_karmada_program(
                program_name::ESTIMATOR,
                "Answer requests of schedulers about the free capacity of one member",
                words,
                |flags| Command::Estimator(Box::new(flags)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_words_select_the_program_and_are_its_arguments() {
        for (program, flag, expected) in [
            ("karmada-scheduler", "--version", ExitCode::SUCCESS),
            ("karmada-scheduler", "--no-such-flag", ExitCode::from(2)),
            ("berth", "--version", ExitCode::SUCCESS),
        ] {
            let words = [program, flag].map(OsString::from).to_vec();
            let code = BerthCommand::new().run_with(words);
            assert_eq!(
                format!("{code:?}"),
                format!("{expected:?}"),
                "{program} {flag}"
            );
        }
    }
}
