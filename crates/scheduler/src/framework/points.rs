//! The extension points around a decision, each a trait. Those of the decision itself are in `berth-core`.
//!
//! | point | when | where | an error means |
//! |---|---|---|---|
//! | [`PreEnqueue`] | a binding's turn has come, before a cycle is spent on it | owner's task | there is none: gated is not an error |
//! | [`QueueSort`] | a binding becomes ready | owner's task | there is none |
//! | [`PostFilter`] | no cluster fits | owner's task | the plugin is passed over |
//! | [`Reserve`] | a result is found, before anything is written | owner's task | earlier ones are unreserved, the binding fails |
//! | [`Permit`] | after every Reserve | owner's task | see [`Permission`] |
//! | [`PreBind`], [`Bind`] | after Permit | the binding's own task | all is unreserved, the binding is tried again |
//! | [`PostBind`] | the result is stored | the binding's own task | there is none: it only informs |
//!
//! Points on the owner's task hold up every other decision while they run: they compute, and do no I/O.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_api::binding::TargetCluster;
use berth_core::{CycleState, PluginError, Snapshot};
use futures::future::BoxFuture;

use super::preempt::{Nomination, PostFilterContext};
use super::waiting::Waiting;
use crate::binding::Binding;
pub use crate::queue::Rank;
use crate::writer::Report;

/// Decides whether a binding may be scheduled at all yet.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreEnqueue point")]
pub trait PreEnqueue: Debug + Send + Sync {
    /// Whether the binding is ready. A gated one waits for an event that the plugin has registered.
    fn pre_enqueue(&self, binding: &Binding) -> Gate;
}

/// Whether a binding may be scheduled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// It has to wait; the text says for what, as users read it in the condition.
    Closed(String),
    /// The plugin cannot tell yet, and says so to nobody: it asks to look again when it can.
    NotKnown,
}

/// Orders the bindings that are ready. There is exactly one, and all profiles share it.
#[diagnostic::on_unimplemented(message = "`{Self}` has no QueueSort point")]
pub trait QueueSort: Debug + Send + Sync {
    /// Where the binding belongs: the greater rank goes first, and among equals the older binding.
    ///
    /// It is asked once each time the binding becomes ready, not at each comparison, so that no plugin can
    /// put the queue into disorder.
    fn rank(&self, binding: &Binding) -> Rank;
}

/// Makes room for a binding that fits nowhere.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PostFilter point")]
pub trait PostFilter: Debug + Send + Sync {
    /// What has to go so that the binding fits; `None` where nothing helps.
    ///
    /// # Errors
    /// When it cannot tell. The next plugin is asked.
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError>;
}

/// A result that is found and not stored yet.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The binding that it was found for.
    pub binding: Arc<Binding>,
    /// The clusters with their replicas.
    pub targets: Arc<[TargetCluster]>,
    /// The fleet that it was found in.
    pub snapshot: Arc<Snapshot>,
}

/// Keeps books of what a decision takes.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Reserve point")]
pub trait Reserve: Debug + Send + Sync {
    /// Takes what the decision needs.
    ///
    /// # Errors
    /// When it cannot be had: the plugins before it are asked to give back, and the binding fails.
    fn reserve(&self, decided: &Decided, state: &mut CycleState) -> Result<(), PluginError>;

    /// Gives back what was taken, because the decision will not be stored. Must bear being called for a
    /// decision that it has never reserved for.
    fn unreserve(&self, decided: &Decided, state: &mut CycleState);
}

/// Lets a decision pass, stops it, or makes it wait.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Permit point")]
pub trait Permit: Debug + Send + Sync {
    /// Whether the decision may be stored. `waiting` holds the decisions that wait already: each can be
    /// allowed or rejected on this plugin's behalf.
    fn permit(
        &self,
        decided: &Decided,
        state: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Permission;

    /// Whether the room that a rejected decision gives up may help another binding. Those that share its fate
    /// gain nothing by it.
    fn gains(&self, rejected: &Binding, other: &Binding) -> bool {
        let _ = (rejected, other);
        true
    }

    /// A waiting decision was rejected, by this plugin or another, or its time is over. Those that wait
    /// with it can be rejected too.
    fn rejected(&self, binding: &Binding, waiting: &mut Waiting<'_>) {
        let _ = (binding, waiting);
    }
}

/// What a [`Permit`] plugin says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may pass.
    Allow,
    /// It may not; the text says why, as users read it in the condition.
    Deny(String),
    /// It waits until it is allowed, at most this long; after that it is rejected.
    Wait(Duration),
}

/// Does what has to be done before a decision is stored.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreBind point")]
pub trait PreBind: Debug + Send + Sync {
    /// Runs to its end before anything is written.
    ///
    /// # Errors
    /// When the decision must not be stored: all is unreserved, and the binding is tried again.
    fn pre_bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>>;
}

/// Stores a decision. The first that does not skip has stored it; the last one is Berth's own writer.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Bind point")]
pub trait Bind: Debug + Send + Sync {
    /// Stores the clusters of the decision in `spec.clusters` of the binding.
    ///
    /// # Errors
    /// When it could not: all is unreserved, and the binding is tried again.
    fn bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>>;
}

/// What became of a [`Bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is stored. The status is still written by Berth.
    Stored,
    /// Somebody else's business.
    Skip,
}

/// Learns that a decision is stored.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PostBind point")]
pub trait PostBind: Debug + Send + Sync {
    /// The decision is stored.
    fn post_bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
        report: &'a Report,
    ) -> BoxFuture<'a, ()>;
}
