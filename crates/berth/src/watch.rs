//! `berth watch`: a live view of the placements and ready replicas of bindings, and of their changes.
//!
//! ```text
//! source (list and watch) ──> fleet_state ──> screen   on a terminal: the current state, redrawn when it changes
//!                        keys ──> view ──────┘             otherwise: one line per change (lines)
//! ```
//!
//! The command only reads from the control plane.

mod fleet_state;
mod keys;
mod lines;
mod screen;
mod source;
mod terminal;
mod view;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use berth_component_base::kube_client::{self, ConnectError};
use berth_component_base::user_agent::Component;
use berth_plan::control_plane_lists::placement_resources;
use clap::Args;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::fleet_state::FleetState;
use self::screen::Events;
use self::source::WatchEvent;
use self::terminal::Terminal;
use self::view::{Reaction, View};
use crate::control_plane::target;

/// Capacity of the channel for watch events.
const CHANNEL_CAPACITY: usize = 1024;
/// Delay of the redraw after a watch event. All events in this time are drawn together.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Interval in which the health of workloads is checked that changes as time passes.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Flags of `berth watch`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// Path to the kubeconfig file [default: $KUBECONFIG, or that of `berth up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "CONTEXT", visible_alias = "karmada-context")]
    pub context: Option<String>,

    /// Show only bindings of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Print one line per event, also on a terminal
    #[arg(long)]
    pub lines: bool,
}

const EXAMPLES: &str = "\
Examples:
  berth watch                          the state, redrawn when it changes; ? lists the keys
  berth watch -n shop --lines          one line for each change in the namespace shop
  berth watch --lines | grep broken    the workloads that break, with the cause

The workloads that are not well come first. READY counts only replicas in clusters that are
ready. `berth status --help` describes the words in the column HEALTH.";

/// Reason for which `berth watch` fails.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No client for the control plane can be created, or the control plane does not respond.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The control plane refuses a request.
    #[error("cannot watch {what}: {reason}")]
    Read {
        /// Requested resource.
        what: String,
        /// Cause.
        reason: String,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

/// Shows bindings and clusters until the user quits.
///
/// # Errors
/// When the control plane cannot be read at the start, or the output cannot be written.
pub async fn run(args: WatchArgs, cancel: CancellationToken) -> Result<(), WatchError> {
    let target = target(args.kubeconfig, args.context);
    let connecting = async {
        let config = kube_client::config(&target).await?;
        let resources = placement_resources();
        let client = kube_client::reach_serving(config, Component::CommandLine, &resources).await?;
        source::check(&client).await?;
        Ok::<_, WatchError>(client)
    };
    let client = tokio::select! {
        connected = connecting => connected?,
        () = cancel.cancelled() => return Ok(()),
    };
    let (sender, inbox) = mpsc::channel(CHANNEL_CAPACITY);
    let _watches = source::start(client, args.namespace, &sender);
    drop(sender);
    let shown = if args.lines || !std::io::stdout().is_terminal() {
        print_lines(inbox, cancel).await
    } else {
        draw(inbox, cancel).await
    };
    match shown {
        // `head` in `berth watch | head` closes the pipe after ten lines. This is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

async fn print_lines(
    mut inbox: mpsc::Receiver<WatchEvent>,
    cancel: CancellationToken,
) -> std::io::Result<()> {
    let mut fleet = FleetState::default();
    let mut out = std::io::stdout();
    let mut clock = tokio::time::interval(CLOCK_INTERVAL);
    loop {
        let changes = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            event = inbox.recv() => match event {
                Some(event) => fleet.apply(event, Timestamp::now()),
                None => return Ok(()),
            },
            _ = clock.tick() => fleet.advance(Timestamp::now()),
        };
        for change in changes {
            writeln!(out, "{}", lines::line(&Timestamp::now(), &change))?;
        }
        out.flush()?;
    }
}

async fn draw(
    mut inbox: mpsc::Receiver<WatchEvent>,
    cancel: CancellationToken,
) -> std::io::Result<()> {
    let (mut fleet, mut events, mut view) =
        (FleetState::default(), Events::default(), View::default());
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminal = Terminal::open()?;
    let mut keys = terminal.keys();
    let mut clock = tokio::time::interval(CLOCK_INTERVAL);
    let mut redraw_at = Some(Instant::now() + REDRAW_INTERVAL);
    loop {
        let redraw = async {
            match redraw_at {
                Some(redraw_at) => tokio::time::sleep_until(redraw_at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            event = inbox.recv() => {
                let Some(event) = event else { return Ok(()) };
                for change in fleet.apply(event, Timestamp::now()) {
                    events.push(lines::line(&Timestamp::now(), &change));
                }
                redraw_at.get_or_insert_with(|| Instant::now() + REDRAW_INTERVAL);
            }
            _ = clock.tick() => {
                let changes = fleet.advance(Timestamp::now());
                if !changes.is_empty() {
                    redraw_at.get_or_insert_with(Instant::now);
                }
                for change in changes {
                    events.push(lines::line(&Timestamp::now(), &change));
                }
            }
            // After a key press, the screen is redrawn immediately.
            Some(key) = keys.recv() => match view.press(key) {
                Reaction::Quit => return Ok(()),
                Reaction::Draw => redraw_at = Some(Instant::now()),
            },
            Some(()) = resized.recv() => redraw_at = Some(Instant::now()),
            () = redraw => {
                let (size, now) = (terminal.size(), Timestamp::now());
                terminal.show(&screen::render(&fleet, &events, &mut view, size, now))?;
                redraw_at = None;
            }
        }
    }
}
