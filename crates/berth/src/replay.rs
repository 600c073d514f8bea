//! The command `berth replay`, which computes the decisions of a decision log again, and compares the results with the
//! log.

mod text;

use std::io;
use std::path::PathBuf;

use berth_api::feature_gates::{self, FeatureGates};
use berth_scheduler::decision_log::reader::{ReadError, files_of};
use berth_scheduler::framework::Registry;
use berth_scheduler::replay::{
    DecisionSelector, ExtractError, NewConfiguration, ReplayError, ReplayOptions, extract, replay,
};
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use crate::output;

/// Flags of `berth replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// Folder of a decision log, files of a decision log, or extracted decisions
    #[arg(value_name = "DIR|FILE", required = true)]
    pub paths: Vec<PathBuf>,

    /// Configuration file to decide with, instead of the recorded configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Feature gates to decide with, instead of the recorded ones, as Name=true,Name=false
    #[arg(long, value_name = "LIST", value_parser = feature_gates::parse)]
    pub feature_gates: Option<FeatureGates>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,

    /// Maximum differences to show
    #[arg(long, value_name = "N", default_value = "10")]
    pub limit_differences: usize,

    /// Print the last decision about a binding, or decision number N about it, with all inputs
    #[arg(long, value_name = "NAMESPACE/NAME[@N]", conflicts_with_all = ["config", "feature_gates", "output"])]
    pub extract: Option<DecisionSelector>,

    /// File for the extracted decision [default: standard output]
    #[arg(long, value_name = "FILE", requires = "extract")]
    pub extract_to: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  berth replay ./decisions                          checks that all recorded decisions have the same results again
  berth replay ./decisions --config new.yaml        shows the bindings that would have moved with this configuration
  berth replay ./decisions --extract shop/web-deployment --extract-to web.json
                                                    extracts one decision with all its inputs
  berth replay web.json                             repeats the extracted decision

Exit codes, as for diff: 0 if all results are equal, 1 if some differ, 2 for an error.";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text with a row for each difference.
    Table,
    /// The report as JSON, in the format replay.berth.io/v1.
    Json,
}

/// An error of `berth replay`.
#[derive(Debug, thiserror::Error)]
pub enum ReplayCommandError {
    /// The log does not exist or cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The decision cannot be extracted.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The configuration file cannot be read.
    #[error("--config {}: {source}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The extracted decision cannot be written.
    #[error("--extract-to {}: {source}", .path.display())]
    ExtractTo {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The user has interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

/// Replays a log, and prints the report. The plugins are those of Berth and `out_of_tree`. Returns whether all
/// decisions that can be repeated have the recorded results.
///
/// # Errors
/// Fails if the log or the configuration is unusable.
pub async fn run(
    args: ReplayArgs,
    out_of_tree: Registry,
    cancel: CancellationToken,
) -> Result<bool, ReplayCommandError> {
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let _runtime = runtime.enter();
        execute(args, out_of_tree)
    });
    tokio::select! {
        () = cancel.cancelled() => Err(ReplayCommandError::Interrupted),
        done = work => done.map_err(io::Error::other)?,
    }
}

fn execute(args: ReplayArgs, out_of_tree: Registry) -> Result<bool, ReplayCommandError> {
    let files = files_of(&args.paths)?;
    if let Some(decision) = &args.extract {
        let case = extract(&files, decision)?;
        let text = serde_json::to_string(&case).map_err(io::Error::other)? + "\n";
        match args.extract_to {
            Some(path) => std::fs::write(&path, text)
                .map_err(|source| ReplayCommandError::ExtractTo { path, source })?,
            None => output::print(&text)?,
        }
        return Ok(true);
    }
    let configuration = match args.config {
        None => None,
        Some(path) => match std::fs::read_to_string(&path) {
            Ok(text) => Some(NewConfiguration {
                name: path.display().to_string(),
                text,
            }),
            Err(source) => return Err(ReplayCommandError::Config { path, source }),
        },
    };
    let options = ReplayOptions {
        configuration,
        feature_gates: args.feature_gates.map(|gates| gates.engine),
        differences: args.limit_differences,
        out_of_tree,
    };
    let report = replay(&files, &options)?;
    let text = match args.output {
        Format::Json => serde_json::to_string_pretty(&report).map_err(io::Error::other)? + "\n",
        Format::Table => text::render(&report),
    };
    output::print(&text)?;
    Ok(report.is_equal())
}
