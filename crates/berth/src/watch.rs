//! `berth watch`: policies, bindings and members, live: what is wanted where, what is ready, and what moves.
//!
//! ```text
//! source (list and watch) ──> board ──> screen   on a terminal: the state, drawn again when it changes
//!                  keys ──> view ──┘             anywhere else: what happens, a line each (lines)
//! ```
//!
//! It reads bindings and clusters of one control plane and writes nothing.

mod board;
mod keys;
mod lines;
mod screen;
mod source;
mod terminal;
mod view;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use berth_api::component::Component;
use berth_scheduler::connect::{self, ConnectError};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::board::Board;
use self::screen::Events;
use self::source::Seen;
use self::terminal::Terminal;
use self::view::{Reaction, View};
use crate::control_plane::target;

/// How many changes may wait to be shown.
const INBOX: usize = 1024;
/// The shortest time between two pictures.
const FRAME: Duration = Duration::from_millis(200);

/// Flags of `berth watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Path to the kubeconfig file [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// A context of the kubeconfig other than its current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,

    /// Only bindings of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Print what happens, a line each, on a terminal too
    #[arg(long)]
    pub lines: bool,
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It does not answer as it should.
    #[error("cannot watch {what}: {reason}")]
    Read {
        /// What was asked for.
        what: String,
        /// What came instead.
        reason: String,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

/// Shows what happens until the user has seen enough.
///
/// # Errors
/// When the control plane cannot be read at the start, or the output cannot be written.
pub async fn run(args: WatchArgs, cancel: CancellationToken) -> Result<(), WatchError> {
    let target = target(args.kubeconfig, args.context);
    let reached = async {
        let client =
            connect::reach(connect::config(&target).await?, Component::CommandLine).await?;
        source::check(&client).await?;
        Ok::<_, WatchError>(client)
    };
    let client = tokio::select! {
        reached = reached => reached?,
        () = cancel.cancelled() => return Ok(()),
    };
    let (sender, inbox) = mpsc::channel(INBOX);
    let _following = source::follow(client, args.namespace, &sender);
    drop(sender);
    let shown = if args.lines || !std::io::stdout().is_terminal() {
        tell(inbox, cancel).await
    } else {
        draw(inbox, cancel).await
    };
    match shown {
        // `berth watch | head` has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

async fn tell(mut inbox: mpsc::Receiver<Seen>, cancel: CancellationToken) -> std::io::Result<()> {
    let mut board = Board::default();
    let mut out = std::io::stdout();
    loop {
        let seen = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            seen = inbox.recv() => seen,
        };
        let Some(seen) = seen else { return Ok(()) };
        for news in board.see(seen) {
            writeln!(out, "{}", lines::line(&jiff::Timestamp::now(), &news))?;
        }
        out.flush()?;
    }
}

async fn draw(mut inbox: mpsc::Receiver<Seen>, cancel: CancellationToken) -> std::io::Result<()> {
    let (mut board, mut events, mut view) = (Board::default(), Events::default(), View::default());
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminal = Terminal::open()?;
    let mut keys = terminal.keys();
    let mut due = Some(Instant::now() + FRAME);
    loop {
        let drawing = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            seen = inbox.recv() => {
                let Some(seen) = seen else { return Ok(()) };
                for news in board.see(seen) {
                    events.push(lines::line(&jiff::Timestamp::now(), &news));
                }
                due.get_or_insert_with(|| Instant::now() + FRAME);
            }
            // A key press redraws at once.
            Some(key) = keys.recv() => match view.press(key) {
                Reaction::Quit => return Ok(()),
                Reaction::Draw => due = Some(Instant::now()),
            },
            Some(()) = resized.recv() => due = Some(Instant::now()),
            () = drawing => {
                terminal.show(&screen::picture(&board, &events, &mut view, terminal.size()))?;
                due = None;
            }
        }
    }
}
