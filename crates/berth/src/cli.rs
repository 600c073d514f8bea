//! The command line.

use std::process::ExitCode;

use berth_scheduler::Options;
use berth_scheduler::logging::{self, LogArgs};
use berth_scheduler::options::SchedulerArgs;
use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::controllers::{self, ControllersArgs};
use crate::signals;
use crate::up::{self, UpArgs};

/// The exit code for a command line that makes no sense.
const USAGE: u8 = 2;

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
                return fail(&anyhow::Error::from(error).context("cannot start the runtime"));
            }
        };
        let cancel = CancellationToken::new();
        let outcome = runtime.block_on(async {
            signals::cancel_on_signal(cancel.clone())?;
            match self.command {
                Command::Up(args) => up::run(args, cancel).await.map_err(anyhow::Error::from),
                Command::Controllers(args) => controllers::run(args, cancel)
                    .await
                    .map_err(anyhow::Error::from),
                Command::Scheduler(args) => match Options::try_from(*args) {
                    Ok(options) => Ok(berth_scheduler::run(options, cancel).await?),
                    Err(error) => {
                        eprintln!("error: {error}");
                        return Ok(ExitCode::from(USAGE));
                    }
                },
            }
            .map(|()| ExitCode::SUCCESS)
        });
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        match outcome {
            Ok(code) => code,
            Err(error) => fail(&error),
        }
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
