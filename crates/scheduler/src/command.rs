//! The command of a scheduler, for a `main` of one expression: with plugins of one's own, or without.
//!
//! ```no_run
//! use berth_scheduler::SchedulerCommand;
//! use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};
//!
//! fn new(_: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
//!     Ok(Plugin::new("Mine"))
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     SchedulerCommand::new().with_plugin("Mine", new).run()
//! }
//! ```

use std::ffi::OsString;
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::flags::SchedulerArgs;
use crate::framework::{Args, FactoryError, Handle, Plugin, Registry, RegistryError};
use crate::logging::{self, LogArgs};
use crate::options::{Options, OptionsError};
use crate::runtime;
use crate::service::{self, ServiceError};
use crate::signals;

/// A scheduler as a program.
#[derive(Debug)]
pub struct SchedulerCommand {
    name: &'static str,
    out_of_tree: Result<Registry, RegistryError>,
    unregistered: Vec<String>,
}

impl Default for SchedulerCommand {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a scheduler ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Two plugins have the same name.
    #[error(transparent)]
    Plugin(#[from] RegistryError),
    /// The command line or the configuration file makes no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The service.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl CommandError {
    /// Whether the user has to change flags, configuration or program for it to work.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Plugin(_) | Self::Options(_) => true,
            Self::Service(error) => error.is_configuration(),
        }
    }
}

/// Schedule bindings of a Karmada control plane.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    version: Option<VersionCommand>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum VersionCommand {
    /// Print the version
    Version,
}

impl SchedulerCommand {
    /// A scheduler with the in-tree plugins.
    pub fn new() -> Self {
        Self {
            name: "berth-scheduler",
            out_of_tree: Ok(Registry::new()),
            unregistered: Vec::new(),
        }
    }

    /// Names the program in its version.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Adds a plugin. A name that is taken is an error of [`Self::run`].
    #[must_use]
    pub fn with_plugin(
        mut self,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Self {
        self.out_of_tree = self.out_of_tree.and_then(|mut registry| {
            registry.register(name, factory)?;
            Ok(registry)
        });
        self
    }

    /// Adds all plugins of a registry.
    #[must_use]
    pub fn with_registry(mut self, other: Registry) -> Self {
        self.out_of_tree = self.out_of_tree.and_then(|mut registry| {
            registry.merge(other)?;
            Ok(registry)
        });
        self
    }

    /// Takes an in-tree plugin out, for example to put another one of the same name in its place. A name that no
    /// in-tree plugin has is an error of [`Self::run`].
    #[must_use]
    pub fn without_plugin(mut self, name: impl Into<String>) -> Self {
        self.unregistered.push(name.into());
        self
    }

    /// Reads the command line, and schedules until the process is told to end.
    pub fn run(self) -> ExitCode {
        let cli = match parse::<Cli>(Cli::command().name(self.name), std::env::args_os()) {
            Ok(cli) => cli,
            Err(error) => return refuse(&error),
        };
        if cli.version.is_some() {
            let version = env!("CARGO_PKG_VERSION");
            let printed = writeln!(std::io::stdout(), "{} {version}", self.name);
            return match printed {
                Err(error) if error.kind() != IoErrorKind::BrokenPipe => report(error, 1),
                _ => ExitCode::SUCCESS,
            };
        }
        logging::init(&cli.log, "info");
        logging::log_panics();
        let outcome = runtime::run(async {
            let cancel = CancellationToken::new();
            if let Err(error) = signals::cancel_on_signal(cancel.clone()) {
                return Err((error.to_string(), 1));
            }
            let outcome = self.execute(cli.scheduler, cancel).await;
            outcome.map_err(|error| (error.to_string(), if error.is_usage() { 2 } else { 1 }))
        });
        // Said when nothing else can speak any more, so that it is the last line.
        match outcome {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err((error, code))) => report(error, code),
            Err(error) => report(format!("cannot start the runtime: {error}"), 1),
        }
    }

    /// Schedules until the token is cancelled, in a runtime that is there already.
    ///
    /// # Errors
    /// When it cannot begin, or cannot go on.
    pub async fn execute(
        self,
        args: SchedulerArgs,
        cancel: CancellationToken,
    ) -> Result<(), CommandError> {
        let options = Options {
            registry: self.out_of_tree?,
            unregistered: self.unregistered,
            ..Options::try_from(args)?
        };
        Ok(service::run(options, cancel).await?)
    }
}

/// Reads a command line. Every flag takes a negative number, so that one out of range is refused as that, and not as an
/// unknown flag.
///
/// # Errors
/// When it makes no sense, or asks for help.
pub fn parse<C: Parser>(
    command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<C, clap::Error> {
    let matches = with_negative_numbers(command).try_get_matches_from(words)?;
    C::from_arg_matches(&matches)
}

fn with_negative_numbers(command: Command) -> Command {
    let flag_takes_value =
        |arg: &clap::Arg| arg.get_long().is_some() && arg.get_action().takes_values();
    command
        .mut_args(|arg| {
            if flag_takes_value(&arg) {
                arg.allow_negative_numbers(true)
            } else {
                arg
            }
        })
        .mut_subcommands(with_negative_numbers)
}

/// Shows help where it was asked for, and otherwise says in one line what is wrong with the command line.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return report(one_line(error), 2);
    }
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// What is wrong with the command line, without the usage that `--help` shows.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    let said = said.join(" ");
    format!(
        "{} (see --help)",
        said.strip_prefix("error: ").unwrap_or(&said)
    )
}

/// Says what went wrong, in one line; the code says whose turn it is.
pub fn report(error: impl std::fmt::Display, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {}", unbroken(&error.to_string()));
    ExitCode::from(code)
}

/// Text of others, such as that of a panic, may have several lines.
fn unbroken(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_one_line() {
        assert_eq!(unbroken("a\n  left: 1\n right: 2"), "a left: 1 right: 2");
    }
}
