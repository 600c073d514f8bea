//! Dependencies: what a resource names - ConfigMaps, Secrets, ServiceAccounts, volume claims - follows it into the
//! members, where its policy says `propagateDeps`.
//!
//! ```text
//! ResourceBindings ──────────┐
//!                            ├─> owner: who names what ─> queue ─┬─> explore: template, what it names
//! objects of kinds that are  │                                   └─> attach: binding of what is named
//!   named (watched on demand)┘                                       (bounded)
//! ```
//!
//! A binding whose policy says so is *followed*. What its template names is kept as an annotation on it; each object
//! that is named gets a binding of its own, the *attached* one, which has no placement and says by whom it is
//! required and which clusters these have. The propagation sends it there. What an attached binding should say is a
//! pure function ([`attachment`]) of all that follow it together, so it does not matter who came first.
//!
//! A followed binding keeps a finalizer until nothing is attached to it. Knows no scheduler, no Work and no member.

mod attachment;
mod happenings;
mod index;
mod intake;
mod owner;
mod record;
mod strategy;
mod writer;

use berth_events::EventRecorder;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::owner::{INBOX, Owner};
use self::writer::Writer;
use crate::kinds::Kinds;

/// Why the distributor stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum DependenciesError {
    /// One of its tasks panicked.
    #[error("a task of the dependencies distributor failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs the distributor until it is told to stop.
///
/// The server need not be up, nor serve all APIs, when this is called: what is missing is waited for.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    shutdown: CancellationToken,
) -> Result<(), DependenciesError> {
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let (events, event_writer) = EventRecorder::new(client.clone(), happenings::COMPONENT);
    let telling = tokio::spawn(event_writer.run(shutdown.clone()));
    let writer = Writer {
        kinds: Kinds::new(client),
        events,
    };
    let ended = Owner::new(writer, sender, shutdown).run(inbox).await;
    drop(guard);
    telling.await?;
    ended
}
