//! `berth simulate`: what would happen? Decisions without a server, and without consequences.
//!
//! ```text
//! source ──> manifest ──> sandbox ──> detect ──> decide ──> report
//!  files      roles,       refusals,   bindings   engine     tables, JSON
//!             duplicates   defaults       ^
//!                                         │
//!              live (get and list) ──> against ──> triggers, moves
//! ```
//!
//! Nothing here decides anything by itself. What a control plane refuses and defaults is asked of an embedded
//! server ([`sandbox`]), which binding a template gets of the detector's state ([`detect`]), whether a
//! binding is looked at of the scheduler's ([`triggers`]), and where it goes of the engine ([`decide`]).
//! A live control plane is only read.

mod against;
mod args;
mod catalogue;
mod configuration;
mod decide;
mod detect;
mod elsewhere;
mod error;
mod estimators;
mod files;
mod fleet_change;
mod future;
mod idle_policies;
mod lenient;
mod live;
mod manifest;
mod moves;
mod notes;
mod overlay;
mod progress;
mod report;
mod sandbox;
mod source;
mod triggers;
mod typing;

pub use args::{Format, SimulateArgs, TaintArg};
pub use error::{Place, Problem, SimulateError};
pub use source::Input;

use std::io::Write as _;

use tokio_util::sync::CancellationToken;

use self::notes::Notes;

/// Answers, on standard output.
///
/// # Errors
/// When the manifests cannot be used, the control plane of `--against` cannot be read, or the user
/// interrupts.
pub async fn run(args: SimulateArgs, cancel: CancellationToken) -> Result<(), SimulateError> {
    tokio::select! {
        answered = answer(args) => answered,
        () = cancel.cancelled() => Err(SimulateError::Interrupted),
    }
}

async fn answer(args: SimulateArgs) -> Result<(), SimulateError> {
    let estimators = args.estimators.clone().options()?;
    if estimators.is_some() && args.against.is_none() {
        return Err(SimulateError::EstimatorsOfNobody);
    }
    let inputs = args.filename.clone();
    // Standard input may be a terminal, and Ctrl-C still has to be heard.
    let reading = tokio::task::spawn_blocking(move || source::read(&inputs));
    let (documents, mut problems) = reading
        .await
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    let manifests = manifest::sort_out(documents, &mut problems);
    let mut notes = Notes::default();
    if !args.taint.is_empty() {
        notes.push(fleet_change::ABOUT_TAINTS);
    }
    let width = terminal_width();
    // A whole answer or none: whoever reads this through a pipe never sees half of one.
    let mut out = Vec::new();
    let unscheduled = if let Some(context) = &args.against {
        let moves =
            against::moves(context, estimators, manifests, &args, problems, &mut notes).await?;
        report::moves(args.output, &moves, &notes, width, &mut out)?;
        moves.unschedulable()
    } else {
        let state = files::state(manifests, &args, problems, &mut notes).await?;
        notes.push(configuration::note(&state.bindings, &[]));
        if args.changes_fleet() {
            let moves = files::moves(&state, &args, &mut notes).await?;
            report::moves(args.output, &moves, &notes, width, &mut out)?;
            moves.unschedulable()
        } else {
            let decisions = files::decisions(&state, &args, &mut notes).await?;
            report::decisions(args.output, &decisions, &notes, width, &mut out)?;
            let failed = decisions.iter().filter(|d| d.failure.is_some());
            failed.count()
        }
    };
    print(&out)?;
    let selections = notes.idle();
    if args.fail_on_unscheduled && (unscheduled > 0 || selections > 0) {
        return Err(SimulateError::Unscheduled {
            bindings: unscheduled,
            selections,
        });
    }
    Ok(())
}

/// The width of the terminal that reads the answer; none where a program does.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

fn print(out: &[u8]) -> Result<(), SimulateError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(out).and_then(|()| stdout.flush()) {
        // `berth simulate | head` has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(SimulateError::from),
    }
}
