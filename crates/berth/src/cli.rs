//! The command line.

use std::fmt::Display;
use std::process::ExitCode;

use berth_scheduler::Options;
use berth_scheduler::logging::{self, LogArgs};
use berth_scheduler::options::SchedulerArgs;
use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::controllers::{self, ControllersArgs, ControllersError};
use crate::signals;
use crate::up::{self, UpArgs, UpError};

/// A multi-cluster propagation scheduler that speaks the Karmada API.
#[derive(Debug, Parser)]
#[command(name = "berth", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  berth up                                  a control plane with three simulated members, ready in a second
  berth up --members 10 --port 7443         more members, another port
  berth scheduler --kubeconfig FILE         the scheduler alone, against any Karmada control plane
  berth scheduler --scheduler-name=my-scheduler --leader-elect-resource-name=my-scheduler
                                            a second scheduler beside the default one";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a control plane with a simulated fleet: API server, detector and scheduler in one process
    Up(UpArgs),
    /// Run the detector, which turns policies and resources into bindings, against a control plane
    Controllers(ControllersArgs),
    /// Run the scheduler against a control plane
    Scheduler(Box<SchedulerArgs>),
}

impl Cli {
    /// Does what the command line asks for.
    pub fn run(self) -> ExitCode {
        let default_level = match self.command {
            Command::Up(_) => "warn",
            Command::Controllers(_) | Command::Scheduler(_) => "info",
        };
        logging::init(&self.log, default_level);
        // Several crates of the tree speak TLS; they share one provider.
        if rustls::crypto::ring::default_provider()
            .install_default()
            .is_err()
        {
            tracing::debug!("a TLS provider is installed already");
        }
        let runtime = match tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => {
                return Failure::run(format!("cannot start the runtime: {error}")).report();
            }
        };
        let outcome = runtime.block_on(self.command.run());
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        }
    }
}

impl Command {
    async fn run(self) -> Result<(), Failure> {
        let cancel = CancellationToken::new();
        signals::cancel_on_signal(cancel.clone()).map_err(Failure::run)?;
        match self {
            Self::Up(args) => up::run(args, cancel).await.map_err(|error| match error {
                UpError::Options(error) => Failure::usage(error),
                error => Failure::run(error),
            }),
            Self::Controllers(args) => {
                controllers::run(args, cancel)
                    .await
                    .map_err(|error| match error {
                        ControllersError::Options(error) => Failure::usage(error),
                        error => Failure::run(error),
                    })
            }
            Self::Scheduler(args) => {
                let options = Options::try_from(*args).map_err(Failure::usage)?;
                berth_scheduler::run(options, cancel)
                    .await
                    .map_err(Failure::run)
            }
        }
    }
}

/// What went wrong, in one line, and the exit code that says whose turn it is.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The command line makes no sense.
    fn usage(error: impl Display) -> Self {
        Self {
            message: error.to_string(),
            code: 2,
        }
    }

    /// The command line is fine, and it did not work out.
    fn run(error: impl Display) -> Self {
        Self {
            message: error.to_string(),
            code: 1,
        }
    }

    fn report(self) -> ExitCode {
        eprintln!("error: {}", self.message);
        ExitCode::from(self.code)
    }
}
