//! The detector: finds the policy of each resource template, marks the template as claimed by it, and
//! keeps the template's binding in line with both.
//!
//! ```text
//! discovery ──> which kinds are served ──┐
//! informers ──> templates, policies,     ├─> owner: index ─> decision ─> queue ─> writes (bounded)
//!               overrides, bindings ─────┘
//! ```
//!
//! One task owns the [`state`]; [`decision`] is a pure function of it; writes are on their way
//! concurrently, never two for one object, each with the version that it is based on. Whatever is lost is
//! found again: on a restart or a new list everything is looked at once more, and where nothing is to be
//! done nothing is written.
//!
//! The detector knows no scheduler: it never writes `spec.clusters` or anything of a status. Against a
//! server without Karmada's webhooks it completes policies itself, and tells of a policy that breaks a rule
//! by an event.

mod affinity_faults;
pub mod binding_change;
pub mod claim;
pub mod decision;
#[cfg(test)]
mod decision_tests;
pub mod desired_binding;
mod discovery;
mod happenings;
pub mod index;
mod intake;
#[cfg(test)]
mod intake_tests;
mod observation;
pub mod options;
mod owner;
pub mod policy;
pub mod preemption;
pub mod selection;
pub mod skipped_apis;
pub mod state;
pub mod template;
mod unserved_apis;
mod waiting;
mod writer;

pub use options::{DetectorOptions, Gates, OptionsError};

use berth_events::EventRecorder;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::claim::PolicyKind;
use self::observation::Source;
use self::owner::{INBOX, Owner};
use self::writer::{Writer, binding_resource, policy_resource};
use crate::binding_key::BindingKind;

/// Why the detector stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum DetectorError {
    /// One of its tasks panicked.
    #[error("a task of the detector failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs the detector until it is told to stop.
///
/// The server need not be up, nor serve all APIs, when this is called: what is missing is waited for.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: DetectorOptions,
    shutdown: CancellationToken,
) -> Result<(), DetectorError> {
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let (events, event_writer) = EventRecorder::new(client.clone(), happenings::COMPONENT);
    let telling = tokio::spawn(event_writer.run(shutdown.clone()));
    let writer = Writer {
        client: client.clone(),
        events,
        gates: options.gates,
    };
    let looking = tokio::spawn(discovery::discover(
        client,
        sender.clone(),
        shutdown.clone(),
    ));
    let mut owner = Owner::new(options, writer, sender, shutdown);
    for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
        owner.watch(Source::Policies(kind), policy_resource(kind));
    }
    for kind in [BindingKind::Namespaced, BindingKind::Cluster] {
        owner.watch(Source::Bindings(kind), binding_resource(kind));
    }
    tracing::info!("detector started");
    let ended = owner.run(inbox).await;
    drop(guard);
    looking.await?;
    telling.await?;
    tracing::info!("detector stopped");
    ended
}
