//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use berth_scheduler::SchedulerCommand;
use berth_scheduler::config::SchedulerArgs;
use berth_scheduler::process::logging::{self, LogArgs};
use berth_scheduler::process::{command_line, runtime, signals};
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::clusters::ClustersError;
use crate::clusters::cordon::{self, CordonArgs, Wanted};
use crate::clusters::list::{self, Get};
use crate::clusters::taint::{self, TaintArgs};
use crate::completion::{self, CompletionArgs};
use crate::control_plane;
use crate::controllers::{self, ControllersArgs, ControllersError};
use crate::down::{self, DownArgs};
use crate::join::command::{self as joining, JoinArgs};
use crate::join::unjoin::{self, UnjoinArgs};
use crate::mishap::{self, Mishap, MishapArgs};
use crate::simulate::{self, SimulateArgs, SimulateError};
use crate::status::{self, StatusArgs};
use crate::up::{self, UpArgs, UpError};
use crate::watch::{self, WatchArgs};

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
  berth up                                  a control plane with three simulated members
  berth up --members 10 --port 7443         more members, another port
  berth up --data-dir ./data                keeps everything for the next start
  berth join member1 --cluster-kubeconfig FILE  a cluster of yours becomes a member
  berth simulate -f fleet.yaml -f apps/     where these apps would go, and why; needs no server
  berth scheduler --kubeconfig FILE         the scheduler alone, against any Karmada control plane
  berth scheduler --scheduler-name=my-scheduler --leader-elect-resource-name=my-scheduler
                                            a second scheduler beside the default one";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a control plane with a simulated fleet: API servers, controllers and scheduler in one process
    Up(UpArgs),
    /// Show what is up: servers, members, where and since when
    Status(StatusArgs),
    /// Stop what `berth up` started, and wait until it has stopped
    Down(DownArgs),
    /// Show live what is wanted where, what is ready, and what moves
    Watch(WatchArgs),
    /// Make a cluster a member of the control plane
    Join(Box<JoinArgs>),
    /// Take a member out of the control plane
    Unjoin(UnjoinArgs),
    /// Show members
    #[command(subcommand)]
    Get(Get),
    /// Keep new workloads away from members
    Cordon(CordonArgs),
    /// Let new workloads go to members again
    Uncordon(CordonArgs),
    /// Change the taints of members
    Taint(TaintArgs),
    /// Cut simulated members off, to see what happens
    Fail(MishapArgs),
    /// Let simulated members be reached again
    Heal(MishapArgs),
    /// Do what karmada-controller-manager does, against a control plane that has none
    Controllers(ControllersArgs),
    /// Run the scheduler against a control plane
    Scheduler(Box<SchedulerArgs>),
    /// Show where workloads would go and why, or what would move; nothing is written
    Simulate(Box<SimulateArgs>),
    /// Print a script with which a shell completes commands and flags
    Completion(CompletionArgs),
    /// Print the version
    Version,
}

impl Cli {
    /// Does what the command line asks for.
    pub fn run(self) -> ExitCode {
        let default_level = match self.command {
            Command::Controllers(_) | Command::Scheduler(_) => "info",
            // What the client logs of a refusal is in the error as well.
            Command::Join(_)
            | Command::Unjoin(_)
            | Command::Get(_)
            | Command::Cordon(_)
            | Command::Uncordon(_)
            | Command::Taint(_) => "warn,kube_client=off",
            _ => "warn",
        };
        logging::init(&self.log, default_level);
        if matches!(self.command, Command::Scheduler(_)) {
            logging::log_panics();
        }
        match runtime::run(self.command.run()) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(failure)) => failure.report(),
            Err(error) => Failure::run(format!("cannot start the runtime: {error}")).report(),
        }
    }
}

/// The name under which the program is only a scheduler, so that it can take the place of Karmada's binary.
const SCHEDULER_NAME: &str = "karmada-scheduler";

/// Reads the command line and does what it asks for.
pub fn main() -> ExitCode {
    if called_as_scheduler() {
        return SchedulerCommand::new().named(SCHEDULER_NAME).run();
    }
    match command_line::parse::<Cli>(Cli::command(), with_levels(std::env::args_os())) {
        Ok(cli) => cli.run(),
        Err(error) => command_line::refuse(&error),
    }
}

/// `-v` takes a level only where a number follows: `berth -v up` starts something.
fn with_levels(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    for place in 0..words.len() {
        let is_number = |word: &OsString| word.to_str().is_some_and(|w| w.parse::<u8>().is_ok());
        let alone = !words.get(place + 1).is_some_and(is_number);
        if let Some(word) = words.get_mut(place)
            && (word == "-v" || word == "--v")
            && alone
        {
            word.push("=1");
        }
    }
    words
}

fn called_as_scheduler() -> bool {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    program
        .as_deref()
        .and_then(std::path::Path::file_stem)
        .is_some_and(|name| name == SCHEDULER_NAME)
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
            Self::Status(args) => status::run(args).await.map_err(Failure::run),
            Self::Down(args) => down::run(args).await.map_err(Failure::run),
            Self::Watch(args) => watch::run(args, cancel).await.map_err(Failure::run),
            Self::Join(args) => joining::run(*args).await.map_err(|error| {
                if error.is_usage() {
                    Failure::usage(error)
                } else {
                    Failure::run(error)
                }
            }),
            Self::Unjoin(args) => unjoin::run(args).await.map_err(Failure::run),
            Self::Get(get) => list::run(get).await.map_err(Failure::of_clusters),
            Self::Cordon(args) => cordon::run(args, Wanted::Cordoned)
                .await
                .map_err(Failure::of_clusters),
            Self::Uncordon(args) => cordon::run(args, Wanted::Uncordoned)
                .await
                .map_err(Failure::of_clusters),
            Self::Taint(args) => taint::run(args).await.map_err(Failure::of_clusters),
            Self::Fail(args) => mishap::request(args, Mishap::Fail)
                .await
                .map_err(Failure::run),
            Self::Heal(args) => mishap::request(args, Mishap::Heal)
                .await
                .map_err(Failure::run),
            Self::Controllers(args) => {
                controllers::run(args, cancel)
                    .await
                    .map_err(|error| match error {
                        ControllersError::Options(error) => Failure::usage(error),
                        ControllersError::Lease(error) => Failure::usage(error),
                        error => Failure::run(error),
                    })
            }
            Self::Version => {
                let version = env!("CARGO_PKG_VERSION");
                answer::print(&format!("berth {version}\n")).map_err(Failure::run)
            }
            Self::Completion(args) => completion::run(args, Cli::command()).map_err(Failure::run),
            Self::Simulate(args) => simulate::run(*args, cancel)
                .await
                .map_err(Failure::of_simulation),
            Self::Scheduler(mut args) => {
                if args.master.is_none() {
                    let given = args.kubeconfig.filter(|path| !path.as_os_str().is_empty());
                    args.kubeconfig = control_plane::kubeconfig_of(given);
                }
                let ran = SchedulerCommand::new().execute(*args, cancel).await;
                ran.map_err(|error| {
                    if error.is_usage() {
                        Failure::usage(error)
                    } else {
                        Failure::run(error)
                    }
                })
            }
        }
    }
}

/// What went wrong, in one line each, and the exit code that says whose turn it is.
#[derive(Debug)]
struct Failure {
    /// One for each thing that is wrong.
    messages: Vec<String>,
    code: u8,
}

impl Failure {
    /// The command line makes no sense.
    fn usage(error: impl Display) -> Self {
        Self {
            messages: vec![error.to_string()],
            code: 2,
        }
    }

    /// The command line is fine, and it did not work out.
    fn run(error: impl Display) -> Self {
        Self {
            messages: vec![error.to_string()],
            code: 1,
        }
    }

    fn of_simulation(error: SimulateError) -> Self {
        match error {
            SimulateError::Manifests(problems) => Self {
                messages: problems.iter().map(ToString::to_string).collect(),
                code: 1,
            },
            error if error.is_usage() => Self::usage(error),
            error => Self::run(error),
        }
    }

    fn of_clusters(error: ClustersError) -> Self {
        if error.is_usage() {
            Self::usage(error)
        } else {
            Self::run(error)
        }
    }

    fn report(self) -> ExitCode {
        for message in self.messages {
            command_line::report(message, self.code);
        }
        ExitCode::from(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_named_as_such() {
        for (typed, refused) in [
            (
                "berth up --members -1",
                "invalid value '-1' for '--members <N>': must be a number from 0 to 1000",
            ),
            (
                "berth up --port -1",
                "invalid value '-1' for '--port <PORT>': -1 is not in 0..=65535",
            ),
            (
                "berth down --timeout -1",
                "invalid value '-1' for '--timeout <SECONDS>'",
            ),
            (
                "berth unjoin m --wait -1",
                "invalid value '-1' for '--wait <SECONDS>'",
            ),
        ] {
            let words = typed.split(' ').map(OsString::from);
            let error = command_line::parse::<Cli>(Cli::command(), words).unwrap_err();
            assert!(error.to_string().contains(refused), "{typed}: {error}");
        }
    }

    #[test]
    fn only_a_number_is_a_level() {
        for (typed, meant) in [
            ("berth -v up", "berth -v=1 up"),
            ("berth up -v", "berth up -v=1"),
            ("berth up -v --port 0", "berth up -v=1 --port 0"),
            ("berth -v 4 up", "berth -v 4 up"),
            ("berth up --v=4", "berth up --v=4"),
            ("berth --v up", "berth --v=1 up"),
        ] {
            let words = with_levels(typed.split(' ').map(OsString::from));
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(words.join(" "), meant);
            assert!(Cli::try_parse_from(words).is_ok(), "{typed}");
        }
    }
}
