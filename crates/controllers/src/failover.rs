//! Failover: takes bindings off clusters that repel them and off clusters where they are sick, and lets the old
//! copies go when new ones have taken over.
//!
//! ```text
//! clusters: NoExecute taints ──┐
//!                              ├─> owner: toleration, sickness ─> pace ─> eviction ─┐
//! bindings: status, tasks ─────┘                                                    ├─> writes (bounded)
//!                              └─> draining of gracefulEvictionTasks ───────────────┘
//! ```
//!
//! An eviction takes a cluster off `spec.clusters` and leaves a task in `spec.gracefulEvictionTasks`; the
//! scheduler then places what is missing elsewhere, and the binding controller keeps the old Work for as long as
//! the task is there. With Karmada's gate `StatefulFailoverInjection` the task holds what the policy wants to be taken
//! along ([`state`]). What is to be done is decided by pure functions ([`toleration`], [`sickness`],
//! [`draining`], [`eviction`]) from what one task ([`owner`]) has seen; only writes are concurrent.
//!
//! Knows no scheduler, no Work and no member.

pub mod binding;
pub mod draining;
pub mod eviction;
mod intake;
mod line;
pub mod options;
mod owner;
pub mod pace;
pub mod sickness;
pub mod state;
mod step;
pub mod toleration;
mod writer;

pub use options::{FailoverOptions, TaintEviction};

use berth_events::EventRecorder;
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::inform;
use intake::Source;
use owner::Owner;
use writer::Writer;

/// How many observations may wait for the owner; watches wait when it is full.
const INBOX: usize = 1024;
/// The component that events name.
const COMPONENT: &str = "failover-controller";

/// Why failover stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum FailoverError {
    /// One of its tasks panicked.
    #[error("a task of the failover controller failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs until it is told to stop.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: FailoverOptions,
    shutdown: CancellationToken,
) -> Result<(), FailoverError> {
    if options.is_idle() {
        shutdown.cancelled().await;
        return Ok(());
    }
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let (events, event_writer) = EventRecorder::new(client.clone(), COMPONENT);
    let telling = tokio::spawn(event_writer.run(shutdown.clone()));
    let mut watching = JoinSet::new();
    for source in Source::ALL {
        let api = Api::all_with(client.clone(), &source.resource());
        let message = move |observation| (source, observation);
        let (sender, shutdown) = (sender.clone(), shutdown.clone());
        watching.spawn(inform(
            api,
            watcher::Config::default(),
            message,
            sender,
            shutdown,
        ));
    }
    let writer = Writer { client, events };
    let ended = Owner::new(options, writer, shutdown).run(inbox).await;
    drop(guard);
    while let Some(watched) = watching.join_next().await {
        watched?;
    }
    telling.await?;
    ended
}
