//! What happens after placement: a binding becomes Works, these get into the members, and what the members
//! report comes back to the binding and the template.
//!
//! ```text
//! watches: bindings, Works,  ──> owner ──> Works of a binding      (binding)
//!   Clusters, overrides            │  ├──> status, from the Works  (status)
//!                                  │  └──> events
//!                                  └────> one task for each member (execution)
//! ```
//!
//! One task owns what is known of the control plane ([`index`]) and hands out work, a bounded number of pieces
//! at a time and never two for one binding. Each member has a task of its own with what is known of it. All of it
//! is level-triggered: on a restart everything is looked at once more, and where nothing is to be done nothing is
//! written. It must not run beside karmada-controller-manager, which does the same.

pub(crate) mod index;
mod intake;
mod owner;

use std::num::NonZeroUsize;

use berth_events::EventRecorder;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::owner::{INBOX, Owner, Source};
use crate::binding::sync::Syncer;
use crate::kinds::Kinds;
use crate::status::writer::StatusWriter;

/// How much is done at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropagationOptions {
    /// Bindings whose Works or status are written.
    pub concurrent_bindings: NonZeroUsize,
    /// Works that are applied, in each member.
    pub concurrent_works: NonZeroUsize,
    /// Copies of what moved get the state of the old ones as labels; Karmada's gate `StatefulFailoverInjection`.
    pub inject_state: bool,
}

impl Default for PropagationOptions {
    fn default() -> Self {
        Self {
            concurrent_bindings: NonZeroUsize::new(32).unwrap_or(NonZeroUsize::MIN),
            concurrent_works: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            inject_state: false,
        }
    }
}

/// Why propagation stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum PropagationError {
    /// One of its tasks panicked.
    #[error("a task of the propagation failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs propagation until it is told to stop.
///
/// The server need not be up, nor serve all APIs, when this is called: what is missing is waited for.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: PropagationOptions,
    shutdown: CancellationToken,
) -> Result<(), PropagationError> {
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let (events, event_writer) = EventRecorder::new(client.clone(), "binding-controller");
    let telling = tokio::spawn(event_writer.run(shutdown.clone()));
    let kinds = Kinds::new(client.clone());
    let execution = events.of("execution-controller");
    let statuses = StatusWriter::new(kinds.clone(), events.clone());
    let syncer = Syncer::new(kinds, events, options.inject_state);
    let mut owner = Owner::new(
        client,
        options,
        syncer,
        statuses,
        execution,
        sender,
        shutdown.clone(),
    );
    for source in Source::ALL {
        owner.watch(source);
    }
    tracing::info!("propagation started");
    let ended = owner.run(inbox).await;
    drop(guard);
    telling.await?;
    tracing::info!("propagation stopped");
    ended
}
