//! The command `berth simulate`. It prints scheduling decisions for manifests, and writes nothing to a control plane.
//!
//! `berth_plan::simulate` computes the decisions, [`args`] has the flags, and [`report`] formats the result.

mod args;
mod error;
mod report;

pub use args::{Format, SimulateArgs, TaintArg};
pub use error::SimulateCommandError;
pub(crate) use report::listed;

use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::simulate::{self, SimulateError};
use berth_up::preview_server;
use tokio_util::sync::CancellationToken;

use crate::output;

/// Runs the simulation, and prints its result.
///
/// # Errors
/// Fails if the manifests cannot be used, if the control plane of `--against` cannot be read, or if the user interrupts
/// the command.
pub async fn run(
    args: SimulateArgs,
    cancel: CancellationToken,
) -> Result<(), SimulateCommandError> {
    tokio::select! {
        result = simulate(args) => result,
        () = cancel.cancelled() => Err(SimulateCommandError::Interrupted),
    }
}

async fn simulate(args: SimulateArgs) -> Result<(), SimulateCommandError> {
    let options = args.options()?;
    let configuration = configuration(&args).await?;
    // An invalid configuration is reported before any manifest is read.
    configuration.check().map_err(SimulateError::from)?;
    let inputs = args.filename.clone();
    // Reading from a terminal blocks the thread. On another thread, it does not delay Ctrl-C.
    let reading = tokio::task::spawn_blocking(move || simulate::read(&inputs));
    let (documents, problems) = reading
        .await
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    let start = preview_server::start;
    let simulation =
        simulate::simulate(documents, problems, &options, &configuration, start).await?;
    // The output is buffered, so that a pipe receives either the complete output or nothing.
    let mut out = Vec::new();
    report::write(args.output, &simulation, output::terminal_width(), &mut out)?;
    output::print_bytes(&out)?;
    let bindings = simulation.outcome.unscheduled();
    let selections = simulation.notes.idle();
    if args.fail_on_unscheduled && (bindings > 0 || selections > 0) {
        return Err(SimulateCommandError::Unscheduled {
            bindings,
            selections,
        });
    }
    Ok(())
}

/// Returns the configuration that the flags select: a file, the configuration of a running scheduler, or the flags
/// alone.
///
/// # Errors
/// Fails if the file or the running scheduler cannot be read.
async fn configuration(args: &SimulateArgs) -> Result<DecisionConfiguration, SimulateCommandError> {
    if let Some(path) = &args.config {
        let of_file = args.engine.configuration_of_file(path);
        return Ok(of_file.map_err(SimulateError::from)?);
    }
    let Some(endpoint) = args.scheduler.explicit().await? else {
        return Ok(args.engine.configuration());
    };
    let active = endpoint.configuration().await?;
    let out_of_tree = args.engine.out_of_tree.clone();
    Ok(DecisionConfiguration::of_scheduler(
        endpoint.url(),
        &active,
        out_of_tree,
    ))
}
