//! The command line of `berth`: its commands, and the function that runs each command.

mod berth_command;

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use berth_component_base::program::logging::{self, LogArgs};
use berth_component_base::program::{command_line, runtime, signals};
use berth_plan::diff::DiffVerdict;
use berth_plan::simulate::SimulateError;
use berth_scheduler::SchedulerCommand;
use berth_scheduler::config::SchedulerArgs;
use berth_scheduler::framework::Registry;
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio_util::sync::CancellationToken;

pub use self::berth_command::BerthCommand;
use crate::clusters::ClustersError;
use crate::clusters::cordon::{self, CordonArgs, CordonState};
use crate::clusters::list::{self, Get};
use crate::clusters::taint::{self, TaintArgs};
use crate::completion::{self, CompletionArgs};
use crate::control_plane;
use crate::controllers::{self, ControllersArgs, ControllersError};
use crate::dashboard::{self, DashboardArgs, DashboardCommandError};
use crate::diff::{self, DiffArgs, DiffCommandError};
use crate::down::{self, DownArgs};
use crate::drain::uncordon::{self, UncordonArgs};
use crate::drain::{self, DrainArgs, DrainError};
use crate::estimator::{self, EstimatorArgs};
use crate::explain::{self, ExplainArgs, ExplainCommandError};
use crate::fault_injection::{self, Fault, FaultArgs};
use crate::interpret::{self, InterpretArgs};
use crate::join::command::{self as join_command, JoinArgs};
use crate::join::unjoin::{self, UnjoinArgs};
use crate::karmada_command_line::KarmadaCommandLine;
use crate::man::{self, ManArgs};
use crate::output;
use crate::program_name;
use crate::replay::{self, ReplayArgs};
use crate::simulate::{self, SimulateArgs, SimulateCommandError};
use crate::status::{self, StatusArgs, StatusError, StatusResult};
use crate::top::{self, TopArgs};
use crate::uninstall::{self, UninstallArgs};
use crate::up::{self, UpArgs, UpError};
use crate::version::VERSION;
use crate::watch::{self, WatchArgs};
use crate::webhook::{self, WebhookArgs};

/// A multi-cluster propagation scheduler that speaks the Karmada API.
#[derive(Debug, Parser)]
#[command(name = "berth", version = VERSION, propagate_version = true, after_help = EXAMPLES)]
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
  berth up --data-dir ./data                a control plane whose objects survive a restart
  berth join member1 --cluster-kubeconfig FILE  registers your own cluster as a member
  berth simulate -f fleet.yaml -f apps/     shows where these apps would be placed, and why; needs no server
  berth explain deployment/web              explains why web is on its clusters, and what would move it
  berth diff deployment/web                 shows what was changed in members, and what overrides change
  berth scheduler --kubeconfig FILE         the scheduler alone, against any Karmada control plane
  berth scheduler --scheduler-name=my-scheduler --leader-elect-resource-name=my-scheduler
                                            a second scheduler beside the default one";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a control plane with a simulated fleet: API servers, controllers and scheduler in one process
    Up(UpArgs),
    /// Show which workloads are not well, why and what to do; without a namespace, the running control plane
    Status(Box<StatusArgs>),
    /// Stop the control plane that `berth up` started, and wait until it has ended
    Down(DownArgs),
    /// Show workloads live, those that are not well first: health, ready replicas, placements and changes
    Watch(WatchArgs),
    /// Serve a page about the control plane: fleet, bindings, decisions and moves
    Dashboard(DashboardArgs),
    /// Show the workloads that are not well, the free capacity of members, and the bindings that wait or move
    Top(TopArgs),
    /// Register a cluster as a member of the control plane
    Join(Box<JoinArgs>),
    /// Remove a member from the control plane
    Unjoin(UnjoinArgs),
    /// Delete the API of a control plane, unless finalizers would keep its objects
    Uninstall(UninstallArgs),
    /// List members
    #[command(subcommand)]
    Get(Get),
    /// Keep new workloads away from members
    Cordon(CordonArgs),
    /// Allow new workloads on members again
    Uncordon(UncordonArgs),
    /// Move all workloads away from a member before its maintenance, and wait until they have left
    Drain(Box<DrainArgs>),
    /// Change the taints of members
    Taint(TaintArgs),
    /// Make simulated members unreachable, to try out failover
    Fail(FaultArgs),
    /// Make simulated members reachable again
    Heal(FaultArgs),
    /// Run the controllers for a control plane without karmada-controller-manager
    Controllers(ControllersArgs),
    /// Run the scheduler for a control plane
    Scheduler(Box<SchedulerArgs>),
    /// Serve admission webhooks for a control plane without karmada-webhook
    Webhook(Box<WebhookArgs>),
    /// Answer requests of schedulers about the free capacity of one member, without karmada-scheduler-estimator
    Estimator(Box<EstimatorArgs>),
    /// Tell whether a workload is well, where it is stuck, and why each cluster was or was not selected; nothing is written
    Explain(Box<ExplainArgs>),
    /// Show how the copies of a workload differ: in members, from the template, between clusters; nothing is written
    Diff(DiffArgs),
    /// Show where workloads would be placed and why, or what would move; nothing is written
    Simulate(Box<SimulateArgs>),
    /// Repeat the decisions of a decision log, and compare the results with the log; needs no control plane
    Replay(Box<ReplayArgs>),
    /// Check the Lua scripts of ResourceInterpreterCustomizations, and run them on files
    Interpret(Box<InterpretArgs>),
    /// Print a shell completion script
    Completion(CompletionArgs),
    /// Write manual pages into a folder
    Man(ManArgs),
    /// Print the version
    Version,
}

impl Cli {
    /// Runs the command and returns its exit code. `program_name` is the name in messages, such as
    /// `kubectl berth`.
    fn run(self, program_name: &'static str, out_of_tree: Registry) -> ExitCode {
        let default_level = match self.command {
            Command::Controllers(_)
            | Command::Scheduler(_)
            | Command::Webhook(_)
            | Command::Estimator(_) => "info",
            // The error of the command already contains the message that kube's client would log.
            Command::Join(_)
            | Command::Unjoin(_)
            | Command::Uninstall(_)
            | Command::Get(_)
            | Command::Status(_)
            | Command::Top(_)
            | Command::Cordon(_)
            | Command::Uncordon(_)
            | Command::Drain(_)
            | Command::Diff(_)
            | Command::Taint(_) => "warn,kube_client=off",
            _ => "warn",
        };
        logging::init(&self.log, default_level);
        if let Some(service) = self.command.service() {
            // Under Karmada's names, the name is that of the service.
            let program = if program_name.ends_with("berth") {
                format!("{program_name} {service}")
            } else {
                program_name.to_owned()
            };
            logging::log_start(&program, VERSION);
        }
        if matches!(
            self.command,
            Command::Scheduler(_) | Command::Webhook(_) | Command::Estimator(_)
        ) {
            logging::log_panics();
        }
        let failure = match runtime::run(self.command.run(program_name, out_of_tree)) {
            Ok(Ok(())) => return ExitCode::SUCCESS,
            Ok(Err(failure)) => failure,
            Err(error) => Failure::run(format!("cannot start the runtime: {error}")),
        };
        failure.report(program_name)
    }
}

/// Runs the program that the file name of the executable selects: `berth`, or a replacement for one of Karmada's
/// programs.
pub fn main() -> ExitCode {
    BerthCommand::new().run()
}

/// Parses the command line of one of Karmada's programs, and runs the command of `berth` that replaces this program.
fn run_karmada_program<Flags: clap::Args>(
    name: &'static str,
    about: &'static str,
    words: Vec<OsString>,
    to_command: impl FnOnce(Flags) -> Command,
) -> ExitCode {
    let command = KarmadaCommandLine::<Flags>::command()
        .name(name)
        .about(about);
    let program = match command_line::parse::<KarmadaCommandLine<Flags>>(command, words) {
        Ok(program) => program,
        Err(error) => return command_line::refuse(&error),
    };
    let cli = Cli {
        // The only subcommand prints the version.
        command: program.flags.0.map_or(Command::Version, to_command),
        log: program.log,
    };
    cli.run(name, Registry::new())
}

/// Replaces `-v` by `-v=1` unless a number follows, so that `up` in `berth -v up` is parsed as the command.
fn with_explicit_verbosity(mut words: Vec<OsString>) -> Vec<OsString> {
    for index in 0..words.len() {
        let is_number = |word: &OsString| word.to_str().is_some_and(|w| w.parse::<u8>().is_ok());
        let is_alone = !words.get(index + 1).is_some_and(is_number);
        if let Some(word) = words.get_mut(index)
            && (word == "-v" || word == "--v")
            && is_alone
        {
            word.push("=1");
        }
    }
    words
}

impl Command {
    /// Returns the name of a command that runs as a service, and therefore logs its start.
    fn service(&self) -> Option<&'static str> {
        match self {
            Self::Controllers(_) => Some("controllers"),
            // The scheduler says itself that it starts, when its options are valid.
            Self::Webhook(_) => Some("webhook"),
            Self::Estimator(_) => Some("estimator"),
            _ => None,
        }
    }

    async fn run(self, program_name: &'static str, out_of_tree: Registry) -> Result<(), Failure> {
        let cancel = CancellationToken::new();
        signals::cancel_on_signal(cancel.clone()).map_err(Failure::run)?;
        match self {
            Self::Up(args) => up::run(args, cancel).await.map_err(|error| match error {
                UpError::Options(error) => Failure::usage(error),
                UpError::Tracing(error) => Failure::usage(error),
                error => Failure::run(error),
            }),
            Self::Status(args) => Failure::of_status(status::run(*args).await),
            Self::Down(args) => down::run(args).await.map_err(Failure::run),
            Self::Watch(args) => watch::run(args, cancel).await.map_err(Failure::run),
            Self::Dashboard(mut args) => {
                args.engine.out_of_tree = out_of_tree;
                let ran = dashboard::run(args, cancel).await;
                ran.map_err(|error| match error {
                    DashboardCommandError::Configuration(error) => Failure::usage(error),
                    DashboardCommandError::Scheduler(error) if error.is_usage() => {
                        Failure::usage(error)
                    }
                    error => Failure::run(error),
                })
            }
            Self::Join(args) => join_command::run(*args).await.map_err(|error| {
                if error.is_usage() {
                    Failure::usage(error)
                } else {
                    Failure::run(error)
                }
            }),
            Self::Unjoin(args) => unjoin::run(args).await.map_err(Failure::run),
            Self::Uninstall(args) => uninstall::run(args).await.map_err(Failure::run),
            Self::Top(args) => top::run(args).await.map_err(Failure::run),
            Self::Get(get) => list::run(get).await.map_err(Failure::of_clusters),
            Self::Cordon(args) => cordon::run(args, CordonState::Cordoned)
                .await
                .map_err(Failure::of_clusters),
            Self::Uncordon(args) => uncordon::run(args).await.map_err(Failure::of_drain),
            Self::Drain(mut args) => {
                args.engine.out_of_tree = out_of_tree;
                let ran = drain::run(*args, cancel).await.map_err(Failure::of_drain);
                Failure::for_code(ran?.exit_code())
            }
            Self::Taint(args) => taint::run(args).await.map_err(Failure::of_clusters),
            Self::Fail(args) => fault_injection::request(args, Fault::Fail)
                .await
                .map_err(Failure::run),
            Self::Heal(args) => fault_injection::request(args, Fault::Heal)
                .await
                .map_err(Failure::run),
            Self::Controllers(args) => {
                let ran = controllers::run(args, cancel).await;
                ran.map_err(|error| match error {
                    ControllersError::Options(error) => Failure::usage(error),
                    ControllersError::Lease(error) => Failure::usage(error),
                    ControllersError::Tracing(error) => Failure::usage(error),
                    error => Failure::run(error),
                })
            }
            Self::Webhook(args) => webhook::run(*args, cancel).await.map_err(Failure::run),
            Self::Estimator(args) => estimator::run(*args, cancel).await.map_err(Failure::run),
            Self::Version => {
                // `kubectl berth version` prints the same line as `berth version`.
                let name = program_name.trim_start_matches("kubectl ");
                output::print(&format!("{name} {VERSION}\n")).map_err(Failure::run)
            }
            Self::Man(args) => man::run(args, Cli::command()).map_err(Failure::run),
            Self::Interpret(args) => interpret::run(*args).map_err(Failure::run),
            Self::Completion(args) => completion::run(args, Cli::command()).map_err(Failure::run),
            Self::Explain(mut args) => {
                args.engine.out_of_tree = out_of_tree;
                let ran = explain::run(*args).await.map_err(Failure::of_explanation);
                Failure::for_code(ran?.exit_code())
            }
            Self::Diff(args) => result_of_diff(diff::run(args).await),
            Self::Replay(args) => {
                // As with `diff`, the exit code is 1 for differences and 2 for errors.
                let ran = replay::run(*args, out_of_tree, cancel).await;
                Failure::for_code(u8::from(!ran.map_err(Failure::usage)?))
            }
            Self::Simulate(mut args) => {
                args.engine.out_of_tree = out_of_tree;
                let ran = simulate::run(*args, cancel).await;
                ran.map_err(Failure::of_simulation)
            }
            Self::Scheduler(mut args) => {
                if args.master.is_none() {
                    let flag = args.kubeconfig.filter(|path| !path.as_os_str().is_empty());
                    args.kubeconfig = control_plane::kubeconfig_of(flag);
                }
                let scheduler = SchedulerCommand::new().with_registry(out_of_tree);
                let ran = scheduler.execute(*args, cancel).await;
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

/// Converts the result of `berth diff`. As with `diff`, the exit code is 1 for differences and 2 for errors.
fn result_of_diff(ran: Result<DiffVerdict, DiffCommandError>) -> Result<(), Failure> {
    match ran {
        Ok(DiffVerdict::Equal) => Ok(()),
        Ok(DiffVerdict::Different) => Err(Failure::silent(1)),
        Ok(DiffVerdict::Incomplete) => Err(Failure::silent(2)),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// The error messages and the exit code of a failed command.
#[derive(Debug)]
struct Failure {
    /// The messages, each printed on a line of its own.
    messages: Vec<String>,
    code: u8,
}

impl Failure {
    /// Creates a failure that the command line caused (exit code 2).
    fn usage(error: impl Display) -> Self {
        Self {
            messages: vec![error.to_string()],
            code: 2,
        }
    }

    /// Creates a failure that occurred while the command ran (exit code 1).
    fn run(error: impl Display) -> Self {
        Self {
            messages: vec![error.to_string()],
            code: 1,
        }
    }

    /// Creates a failure without a message, for a command whose output explains the exit code.
    fn silent(code: u8) -> Self {
        Self {
            messages: Vec::new(),
            code,
        }
    }

    /// Returns a failure without a message for an exit code other than 0.
    fn for_code(code: u8) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            code => Err(Self::silent(code)),
        }
    }

    fn of_status(result: Result<StatusResult, StatusError>) -> Result<(), Self> {
        match result.map_err(Self::run)? {
            StatusResult::Printed => Ok(()),
            StatusResult::NeedsAttention => Err(Self::silent(3)),
        }
    }

    fn of_simulation(error: SimulateCommandError) -> Self {
        match error {
            SimulateCommandError::Simulate(SimulateError::Manifests(problems)) => Self {
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

    fn of_explanation(error: ExplainCommandError) -> Self {
        if error.is_usage() {
            Self::usage(error)
        } else {
            Self::run(error)
        }
    }

    fn of_drain(error: DrainError) -> Self {
        if error.is_usage() {
            Self::usage(error)
        } else {
            Self::run(error)
        }
    }

    fn report(self, program_name: &'static str) -> ExitCode {
        let commands = program_name::commands(&Cli::command());
        for message in self.messages {
            let message = program_name::rename(&message, program_name, &commands);
            command_line::report(message, self.code);
        }
        ExitCode::from(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (typed, expected) in [
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
            assert!(error.to_string().contains(expected), "{typed}: {error}");
        }
    }

    #[test]
    fn only_a_number_after_v_is_a_log_level() {
        for (typed, expected) in [
            ("berth -v up", "berth -v=1 up"),
            ("berth up -v", "berth up -v=1"),
            ("berth up -v --port 0", "berth up -v=1 --port 0"),
            ("berth -v 4 up", "berth -v 4 up"),
            ("berth up --v=4", "berth up --v=4"),
            ("berth --v up", "berth --v=1 up"),
        ] {
            let words = with_explicit_verbosity(typed.split(' ').map(OsString::from).collect());
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(words.join(" "), expected);
            assert!(Cli::try_parse_from(words).is_ok(), "{typed}");
        }
    }
}
