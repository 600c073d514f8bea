//! Traits of the extension points before and after a decision. The traits of the extension points within a decision are
//! in `berth-core`.
//!
//! | point | when | task | on error |
//! |---|---|---|---|
//! | [`PreEnqueue`] | before the binding's scheduling cycle | scheduler | none: a closed gate is not an error |
//! | [`QueueSort`] | the binding becomes ready | scheduler | none |
//! | [`PostFilter`] | no cluster fits | scheduler | the next plugin runs |
//! | [`Reserve`] | after a decision, before writes | scheduler | all plugins are unreserved, the binding is retried |
//! | [`Permit`] | after Reserve | scheduler | see [`Permission`] |
//! | [`PreBind`], [`Bind`] | after Permit | one per binding | all plugins are unreserved, the binding is retried |
//! | [`PostBind`] | after the write | one per binding | none |
//!
//! Plugins on the scheduler's task block all other decisions while they run. Therefore they must not do I/O.

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

/// Gates bindings before their scheduling cycle.
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
    /// The binding must wait. The scheduler writes the text into the binding's condition.
    Closed(String),
    /// The plugin cannot decide yet. The binding waits with an unchanged condition. When the plugin can decide, it
    /// calls [`Permits::look_again`](super::Permits::look_again).
    NotKnown,
}

/// Orders ready bindings. Exactly one QueueSort plugin is enabled, and all profiles share this plugin.
#[diagnostic::on_unimplemented(message = "`{Self}` has no QueueSort point")]
pub trait QueueSort: Debug + Send + Sync {
    /// Returns the binding's rank. Bindings with a greater rank are scheduled first. Bindings with equal ranks are
    /// ordered by age.
    ///
    /// The scheduler calls this method once each time the binding becomes ready, and stores the rank. Comparisons use
    /// the stored ranks, so a plugin with inconsistent results cannot corrupt the queue.
    fn rank(&self, binding: &Binding) -> Rank;
}

/// Nominates victims to evict for a binding that fits into no cluster.
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
    /// Reserves the resources that the decision needs.
    ///
    /// # Errors
    /// When a resource is unavailable. The scheduler calls [`Self::unreserve`] of all Reserve plugins, and does not
    /// store the decision.
    fn reserve(&self, decided: &Decided, state: &mut CycleState) -> Result<(), PluginError>;

    /// Releases the reservation of a decision that will not be stored. The scheduler may call this method without an
    /// earlier call of [`Self::reserve`].
    fn unreserve(&self, decided: &Decided, state: &mut CycleState);
}

/// Allows, denies or delays decisions.
#[diagnostic::on_unimplemented(message = "`{Self}` has no Permit point")]
pub trait Permit: Debug + Send + Sync {
    /// Decides whether the decision may be stored. The plugin may also allow or reject the parked decisions in
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

    /// Handles a parked decision that a plugin or a timeout rejected, or that is outdated because its binding changed.
    /// The plugin may reject other parked decisions in `waiting`.
    fn rejected(&self, binding: &Binding, waiting: &mut Waiting<'_>) {
        let _ = (binding, waiting);
    }
}

/// Result of a [`Permit`] plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The decision may be stored.
    Allow,
    /// The decision is rejected. The scheduler writes the text into the binding's condition.
    Deny(String),
    /// The decision is parked until the plugin allows it. After this time, the decision is rejected.
    Wait(Duration),
}

/// Prepares the write of a decision.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreBind point")]
pub trait PreBind: Debug + Send + Sync {
    /// Prepares the write. The scheduler writes the decision only after all PreBind plugins have completed.
    ///
    /// # Errors
    /// When the decision must not be stored. All plugins are unreserved, and the binding is retried.
    fn pre_bind<'a>(
        &'a self,
        decided: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>>;
}

/// Stores decisions. The Bind plugins run in order until a plugin stores the decision. The built-in writer runs last.
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
    /// The plugin has stored the clusters. The scheduler writes the status afterwards.
    Stored,
    /// The plugin does not handle this binding, and the next plugin runs.
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
