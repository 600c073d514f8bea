//! Traits of the extension points around a decision. Those of the decision itself are in `berth-core`.
//!
//! | point | when | task | on error |
//! |---|---|---|---|
//! | [`PreEnqueue`] | before the binding's cycle | scheduler | none: a closed gate is not an error |
//! | [`QueueSort`] | the binding becomes ready | scheduler | none |
//! | [`PostFilter`] | no cluster fits | scheduler | the next plugin runs |
//! | [`Reserve`] | after a decision, before any write | scheduler | earlier plugins are unreserved, the binding
//! fails |
//! | [`Permit`] | after Reserve | scheduler | see [`Permission`] |
//! | [`PreBind`], [`Bind`] | after Permit | the binding's own | all plugins are unreserved, the binding is
//! retried |
//! | [`PostBind`] | after the write | the binding's own | none |
//!
//! Points on the scheduler's task block all other decisions while they run: they must not do I/O.

use std::fmt::Debug;
use std::time::Duration;

use berth_core::{CycleState, PluginError};
use futures::future::BoxFuture;

use super::decided::Decided;
use super::permit::Waiting;
use super::preempt::{Nomination, PostFilterContext};
use crate::binding::Binding;
pub use crate::queue::Rank;
use crate::writer::Report;

/// Gates bindings before their cycle.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreEnqueue point")]
pub trait PreEnqueue: Debug + Send + Sync {
    /// Reports whether the binding may be scheduled now. A gated binding waits for a registered event.
    fn pre_enqueue(&self, binding: &Binding) -> Gate;
}

/// Result of a [`PreEnqueue`] plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The binding may be scheduled.
    Open,
    /// The binding has to wait. The text gives the reason for its condition.
    Closed(String),
    /// Unknown yet. The condition does not change; the plugin calls
    /// [`Permits::look_again`](super::Permits::look_again) later.
    NotKnown,
}

/// Orders ready bindings. Exactly one is enabled, and all profiles share it.
#[diagnostic::on_unimplemented(message = "`{Self}` has no QueueSort point")]
pub trait QueueSort: Debug + Send + Sync {
    /// Returns the binding's rank. The greater rank goes first; bindings of equal rank are ordered by age.
    ///
    /// It is called once each time the binding becomes ready, not for each comparison, so an inconsistent
    /// plugin cannot corrupt the queue.
    fn rank(&self, binding: &Binding) -> Rank;
}

/// Nominates victims to make room for a binding that fits nowhere.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PostFilter point")]
pub trait PostFilter: Debug + Send + Sync {
    /// Returns the victims to evict so that the binding fits, or `None` if eviction does not help.
    ///
    /// # Errors
    /// When the plugin cannot decide. The next plugin runs.
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError>;
}

/// Reserves resources for decisions.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Reserve point")]
pub trait Reserve: Debug + Send + Sync {
    /// Reserves what the decision needs.
    ///
    /// # Errors
    /// When it is unavailable. Earlier plugins are unreserved, and the binding fails.
    fn reserve(&self, decided: &Decided, state: &mut CycleState) -> Result<(), PluginError>;

    /// Releases the reservation, because the decision will not be stored. It may be called without an earlier
    /// [`Self::reserve`].
    fn unreserve(&self, decided: &Decided, state: &mut CycleState);
}

/// Allows, denies or delays decisions.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Permit point")]
pub trait Permit: Debug + Send + Sync {
    /// Returns the permission to store the decision. The plugin may also allow or reject the decisions in
    /// `waiting`.
    fn permit(
        &self,
        decided: &Decided,
        state: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Permission;

    /// Reports whether another binding may benefit from the capacity that a rejected decision releases.
    fn gains(&self, rejected: &Binding, other: &Binding) -> bool {
        let _ = (rejected, other);
        true
    }

    /// Handles the rejection of a parked decision by any plugin or timeout. The plugin may reject other
    /// decisions in `waiting`.
    fn rejected(&self, binding: &Binding, waiting: &mut Waiting<'_>) {
        let _ = (binding, waiting);
    }
}

/// Result of a [`Permit`] plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The decision may be stored.
    Allow,
    /// The decision is rejected. The text gives the reason for the condition.
    Deny(String),
    /// The decision waits to be allowed, and is rejected after this time.
    Wait(Duration),
}

/// Prepares the write of a decision.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreBind point")]
pub trait PreBind: Debug + Send + Sync {
    /// Runs to completion before anything is written.
    ///
    /// # Errors
    /// When the decision must not be stored. All plugins are unreserved, and the binding is retried.
    fn pre_bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>>;
}

/// Stores decisions. Plugins run in order until one stores the decision; the built-in writer is the last.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Bind point")]
pub trait Bind: Debug + Send + Sync {
    /// Stores the clusters of the decision in `spec.clusters` of the binding.
    ///
    /// # Errors
    /// When the write failed. All plugins are unreserved, and the binding is retried.
    fn bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>>;
}

/// Result of a [`Bind`] plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The clusters are stored. The scheduler still writes the status.
    Stored,
    /// The plugin does not handle this binding.
    Skip,
}

/// Observes stored decisions.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PostBind point")]
pub trait PostBind: Debug + Send + Sync {
    /// Runs after the decision is stored.
    fn post_bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
        report: &'a Report,
    ) -> BoxFuture<'a, ()>;
}
