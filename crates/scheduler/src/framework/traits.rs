//! Traits of the extension points before and after a decision, with their arguments and results. The traits of the
//! extension points within a decision are in `berth-engine`.
//!
//! | point | when | task | on error |
//! |---|---|---|---|
//! | [`PreEnqueue`] | before the binding's scheduling cycle | scheduler | none: a closed gate is not an error |
//! | [`QueueSort`] | the binding is queued | scheduler | none |
//! | [`PostFilter`] | no cluster fits | scheduler | the next plugin runs |
//! | [`Reserve`] | after a decision, before writes | scheduler | reservations are reverted, the binding is retried |
//! | [`Permit`] | after Reserve | scheduler | see [`Permission`] |
//! | [`PreBind`], [`Bind`] | after Permit | one per binding | reservations are reverted, the binding is retried |
//! | [`PostBind`] | after the write | one per binding | none |
//!
//! Plugins on the scheduler's task block all other decisions while they run. Therefore they must not do I/O.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use berth_api::binding::TargetCluster;
use berth_api::{Binding, BindingKey};
use berth_engine::{CycleState, Outcome, PluginError, Request, Snapshot};
use futures::future::BoxFuture;

use super::plugin_messages::{PermitDecision, PluginMessage};
pub use crate::queue::Rank;
use crate::writer::Report;

/// Gates bindings before their scheduling cycle.
///
/// ```
/// use std::sync::Arc;
///
/// use berth_api::Binding;
/// use berth_scheduler::framework::{Gate, Plugin, PreEnqueue};
///
/// /// Holds bindings back until they have the label `approved`.
/// #[derive(Debug)]
/// struct Approval;
///
/// impl PreEnqueue for Approval {
///     fn pre_enqueue(&self, binding: &Binding) -> Gate {
///         let labels = binding.metadata.labels.as_ref();
///         match labels.is_some_and(|labels| labels.contains_key("approved")) {
///             true => Gate::Open,
///             false => Gate::Closed("waits for the label approved".to_owned()),
///         }
///     }
/// }
///
/// let plugin = Plugin::new("Approval").pre_enqueue(Arc::new(Approval));
/// # drop(plugin);
/// ```
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
    /// calls [`Permits::requeue`](super::Permits::requeue).
    NotKnown,
}

/// Orders ready bindings. Exactly one QueueSort plugin is enabled, and all profiles share this plugin.
#[diagnostic::on_unimplemented(message = "`{Self}` has no QueueSort point")]
pub trait QueueSort: Debug + Send + Sync {
    /// Returns the binding's rank. Bindings with a greater rank are scheduled first. Bindings with equal ranks are
    /// scheduled in the order in which they became ready.
    ///
    /// The scheduler calls this method when it queues the binding, and after
    /// [`Permits::requeue`](super::Permits::requeue). It stores the rank. Comparisons use the stored ranks, so a plugin
    /// with inconsistent results cannot corrupt the queue.
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

/// The context of a decision about a binding that fits into no cluster.
pub struct PostFilterContext<'a> {
    /// The binding that fits into no cluster.
    pub binding: &'a Arc<Binding>,
    /// The request to the engine, parsed from the binding.
    pub request: &'a Request,
    /// The cluster snapshot of the decision.
    pub snapshot: &'a Arc<Snapshot>,
    /// All bindings that the scheduler knows.
    pub bindings: &'a dyn Bindings,
    pub(crate) attempt: &'a mut dyn FnMut(&[Victim]) -> Outcome,
}

impl Debug for PostFilterContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostFilterContext")
            .field("binding", &self.binding.key)
            .finish_non_exhaustive()
    }
}

impl PostFilterContext<'_> {
    /// Makes a trial decision in which the victims' replicas occupy no capacity.
    pub fn without(&mut self, victims: &[Victim]) -> Outcome {
        (self.attempt)(victims)
    }
}

/// Read access to the bindings that the scheduler knows.
pub trait Bindings {
    /// Returns one binding.
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>>;
    /// Returns all bindings in no particular order.
    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_>;
}

/// An assignment to evict: a binding's replicas in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The key of the binding.
    pub key: BindingKey,
    /// The cluster from which the replicas are evicted.
    pub cluster: String,
}

/// The victims that a PostFilter plugin proposes to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The victims. There is at least one.
    pub victims: Vec<Victim>,
}

/// A decision about a binding. A Bind plugin or the built-in writer stores the decision in the binding.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The stored binding, without this decision.
    pub binding: Arc<Binding>,
    /// The chosen clusters with their replicas.
    pub targets: Arc<[TargetCluster]>,
    /// The cluster snapshot that the decision is based on.
    pub snapshot: Arc<Snapshot>,
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

/// The parked decisions that wait for one plugin.
pub struct Waiting<'a> {
    pub(crate) plugin: Arc<str>,
    /// The parked decisions, ordered by binding key.
    pub(crate) decided: Vec<&'a Decided>,
    pub(crate) messages: Vec<PluginMessage>,
}

impl Debug for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("plugin", &self.plugin)
            .field("decided", &self.decided.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Waiting<'a> {
    /// Returns the decisions that wait for this plugin, ordered by binding key.
    pub fn iter(&self) -> impl Iterator<Item = &'a Decided> {
        self.decided.iter().copied()
    }

    /// Allows a parked decision in the name of this plugin.
    pub fn allow(&mut self, key: &BindingKey) {
        self.decide(key, PermitDecision::Allow);
    }

    /// Rejects a parked decision in the name of this plugin. The scheduler writes the reason into the binding's
    /// condition.
    pub fn reject(&mut self, key: &BindingKey, reason: impl Into<String>) {
        self.decide(key, PermitDecision::Reject(reason.into()));
    }

    fn decide(&mut self, key: &BindingKey, decision: PermitDecision) {
        self.messages.push(PluginMessage::Decide {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            decision,
        });
    }
}

/// Prepares the write of a decision.
#[diagnostic::on_unimplemented(message = "`{Self}` has no PreBind point")]
pub trait PreBind: Debug + Send + Sync {
    /// Prepares the write. The scheduler writes the decision only after all PreBind plugins have completed.
    ///
    /// # Errors
    /// When the decision must not be stored. The scheduler reverts all reservations and retries the binding.
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
    /// When the write failed. The scheduler reverts all reservations and retries the binding.
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

/// Observes all bindings that the scheduler knows, for example to index them. The scheduler calls the methods on its
/// own task.
#[diagnostic::on_unimplemented(message = "`{Self}` does not observe bindings")]
pub trait Follow: Debug + Send + Sync {
    /// Handles a binding that was added or changed, before the binding is scheduled. At start, the scheduler calls this
    /// method for all existing bindings.
    fn present(&self, binding: &Binding);

    /// Applies the updates that the plugin collected on other tasks. Returns the affected bindings, which the scheduler
    /// requeues before the next decision. The scheduler calls this method after
    /// [`Permits::requeue`](super::Permits::requeue).
    fn refresh(&self) -> Vec<BindingKey> {
        Vec::new()
    }

    /// Handles the deletion of a binding.
    fn gone(&self, key: &BindingKey);
}
