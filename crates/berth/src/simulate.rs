//! The command `berth simulate`. It computes scheduling decisions for manifests, and writes nothing to a control plane.
//!
//! ```text
//! source ──> manifest ──> sandbox ──> detect ──> what_if ──> report
//!  files      roles,       refusals,   bindings   decisions,   tables, JSON
//!             duplicates   defaults       ^        moves
//!                                         │
//!               live_control_plane ──> live_diff
//!                get and list
//! ```
//!
//! The rules are those of the real components: an embedded API server validates manifests and fills in defaults
//! ([`sandbox`]), and the code of the detector creates the bindings ([`detect`]). [`what_if`] selects the bindings that
//! the scheduler would process, and decides about them with the engine.

pub(crate) mod args;
mod configuration;
mod detect;
mod error;
mod idle_policies;
mod kind_resolution;
mod live_control_plane;
mod live_diff;
mod manifest;
mod merge;
mod notes;
mod offline;
mod predicted_state;
mod rebalancer;
mod report;
mod sandbox;
mod served_kinds;
mod skip_validation;
mod source;
mod well_known_types;

pub use args::{Format, SimulateArgs, TaintArg};
pub use error::{Problem, SimulateError, SourceLocation};
pub use source::Input;
pub(crate) use source::{Document, read};

use tokio_util::sync::CancellationToken;

use self::notes::Notes;
use crate::output;
use crate::what_if;

/// Runs the simulation, and prints its result.
///
/// # Errors
/// Fails if the manifests cannot be used, if the control plane of `--against` cannot be read, or if the user interrupts
/// the command.
pub async fn run(args: SimulateArgs, cancel: CancellationToken) -> Result<(), SimulateError> {
    tokio::select! {
        result = simulate(args) => result,
        () = cancel.cancelled() => Err(SimulateError::Interrupted),
    }
}

async fn simulate(args: SimulateArgs) -> Result<(), SimulateError> {
    let estimators = args.estimators.clone().options()?;
    if estimators.is_some() && args.against.is_none() {
        return Err(SimulateError::EstimatorsWithoutControlPlane);
    }
    let configuration = configuration::of_flags(&args).await?;
    // An invalid configuration is reported before any manifest is read.
    configuration.engines(Vec::new())?;
    let inputs = args.filename.clone();
    // Reading from a terminal blocks the thread. On another thread, it does not delay Ctrl-C.
    let reading = tokio::task::spawn_blocking(move || source::read(&inputs));
    let (documents, mut problems) = reading
        .await
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    let manifests = manifest::from_documents(documents, &mut problems);
    let mut notes = Notes::default();
    if !args.taint.is_empty() {
        notes.push(what_if::TAINT_NOTE);
    }
    if let Some(origin) = configuration.origin() {
        notes.push(format!("decided with the configuration of {origin}"));
    }
    let width = terminal_width();
    // The output is buffered, so that a pipe receives either the complete output or nothing.
    let mut out = Vec::new();
    let unscheduled = if let Some(context) = &args.against {
        let moves = live_diff::moves(
            context,
            estimators,
            manifests,
            &args,
            &configuration,
            problems,
            &mut notes,
        )
        .await?;
        report::moves(args.output, &moves, &notes, width, &mut out)?;
        moves.unschedulable()
    } else {
        let state = offline::read_state(manifests, &args, problems, &mut notes).await?;
        if configuration.origin().is_none() {
            notes.push(configuration::note(&state.bindings, &[]));
        }
        if args.changes_fleet() {
            let moves = offline::moves(&state, &args, &configuration, &mut notes).await?;
            report::moves(args.output, &moves, &notes, width, &mut out)?;
            moves.unschedulable()
        } else {
            let decisions = offline::decisions(&state, &args, &configuration, &mut notes).await?;
            report::decisions(args.output, &decisions, &notes, width, &mut out)?;
            let failed = decisions.iter().filter(|d| d.failure.is_some());
            failed.count()
        }
    };
    output::print_bytes(&out)?;
    let selections = notes.idle();
    if args.fail_on_unscheduled && (unscheduled > 0 || selections > 0) {
        return Err(SimulateError::Unscheduled {
            bindings: unscheduled,
            selections,
        });
    }
    Ok(())
}

/// Returns the width of the terminal, or `None` if the output is not a terminal.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}
