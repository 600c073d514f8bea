//! The command-line program of a scheduler. A custom scheduler adds its own plugins.
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

use berth_telemetry::ExportError;
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::config::{Options, OptionsError, SchedulerArgs};
use crate::framework::{Args, FactoryError, Handle, Plugin, Registry, RegistryError};
use crate::setup::{self, ServiceError};
use berth_component_base::program::command_line::{parse, refuse, report};
use berth_component_base::program::logging::{self, LogArgs};
use berth_component_base::program::{runtime, signals};

/// A builder of a scheduler program.
#[derive(Debug)]
pub struct SchedulerCommand {
    name: &'static str,
    version: &'static str,
    out_of_tree: Result<Registry, RegistryError>,
    unregistered: Vec<String>,
}

impl Default for SchedulerCommand {
    fn default() -> Self {
        Self::new()
    }
}

/// Reason why a scheduler ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Two plugins have the same name, or the plugin to remove is unknown.
    #[error(transparent)]
    Plugin(#[from] RegistryError),
    /// The command line or the configuration file is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The export of traces cannot start.
    #[error(transparent)]
    Tracing(#[from] ExportError),
    /// The scheduler failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl CommandError {
    /// Reports whether the user must change the flags, the configuration or the plugins.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Plugin(_) | Self::Options(_) | Self::Tracing(_) => true,
            Self::Service(error) => error.is_configuration(),
        }
    }
}

/// Schedule bindings of a Karmada control plane.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
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
    /// Creates a scheduler with the in-tree plugins.
    pub fn new() -> Self {
        Self {
            name: "berth-scheduler",
            version: env!("CARGO_PKG_VERSION"),
            out_of_tree: Ok(Registry::new()),
            unregistered: Vec::new(),
        }
    }

    /// Sets the program name that `version` prints.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Sets the version that `version` prints.
    #[must_use]
    pub fn with_version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Adds a plugin. [`Self::run`] fails if another plugin has the same name.
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

    /// Returns the added plugins, for programs that make decisions without a running scheduler.
    ///
    /// # Errors
    /// When two plugins have the same name.
    pub fn into_plugins(self) -> Result<Registry, RegistryError> {
        self.out_of_tree
    }

    /// Removes an in-tree plugin, for example to replace it with a custom plugin of the same name. [`Self::run`] fails
    /// if no in-tree plugin has this name.
    #[must_use]
    pub fn without_plugin(mut self, name: impl Into<String>) -> Self {
        self.unregistered.push(name.into());
        self
    }

    /// Parses the command line of the process, and schedules until the process receives a signal.
    pub fn run(self) -> ExitCode {
        self.run_with(std::env::args_os().collect())
    }

    /// Parses a command line, whose first word is the name of the program, and schedules until the process receives a
    /// signal.
    pub fn run_with(self, words: Vec<OsString>) -> ExitCode {
        let command = Cli::command().name(self.name).version(self.version);
        let cli = match parse::<Cli>(command, words) {
            Ok(cli) => cli,
            Err(error) => return refuse(&error),
        };
        if cli.version.is_some() {
            let printed = writeln!(std::io::stdout(), "{} {}", self.name, self.version);
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
        // The error is printed after all tasks have ended, so that it is the last line of the output.
        match outcome {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err((error, code))) => report(error, code),
            Err(error) => report(format!("cannot start the runtime: {error}"), 1),
        }
    }

    /// Runs the scheduler in the current Tokio runtime until the token is cancelled.
    ///
    /// # Errors
    /// When the scheduler cannot start or cannot continue.
    pub async fn execute(
        self,
        args: SchedulerArgs,
        cancel: CancellationToken,
    ) -> Result<(), CommandError> {
        let export = berth_telemetry::start(&args.tracing, self.name, env!("CARGO_PKG_VERSION"))?;
        let options = Options {
            registry: self.out_of_tree?,
            unregistered: self.unregistered,
            ..Options::try_from(args)?
        };
        logging::log_start(self.name, self.version);
        let ran = Box::pin(setup::run(options, cancel)).await;
        export.finish().await;
        Ok(ran?)
    }
}
