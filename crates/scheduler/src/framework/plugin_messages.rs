//! The types with which Permit plugins read parked decisions, and allow or reject them. A decision is parked while it
//! waits for the permission of a Permit plugin.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::decided::Decided;
use crate::binding::{Binding, BindingKey};

/// An instruction of a plugin to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PermitDecision {
    /// Requeue these bindings. The key in the message is ignored.
    Requeue(Vec<BindingKey>),
    /// Allow the parked decision.
    Allow,
    /// Reject the parked decision for this reason.
    Reject(String),
}

/// A message of a plugin to the scheduler about the parked decision of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermitMessage {
    pub(crate) plugin: Arc<str>,
    pub(crate) key: BindingKey,
    pub(crate) decision: PermitDecision,
}

/// The parked decisions that wait for one plugin.
pub struct Waiting<'a> {
    pub(crate) plugin: Arc<str>,
    /// The parked decisions, ordered by binding key.
    pub(crate) decided: Vec<&'a Decided>,
    pub(crate) messages: Vec<PermitMessage>,
}

impl std::fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        self.send(key, PermitDecision::Allow);
    }

    /// Rejects a parked decision in the name of this plugin. The scheduler writes the reason into the binding's
    /// condition.
    pub fn reject(&mut self, key: &BindingKey, reason: impl Into<String>) {
        self.send(key, PermitDecision::Reject(reason.into()));
    }

    fn send(&mut self, key: &BindingKey, decision: PermitDecision) {
        self.messages.push(PermitMessage {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            decision,
        });
    }
}

/// A handle with which any task of a plugin allows and rejects parked decisions, outside a scheduling cycle.
#[derive(Clone, Debug)]
pub struct Permits {
    plugin: Arc<str>,
    sender: mpsc::UnboundedSender<PermitMessage>,
}

impl Permits {
    pub(crate) fn new(plugin: &str, sender: mpsc::UnboundedSender<PermitMessage>) -> Self {
        Self {
            plugin: plugin.into(),
            sender,
        }
    }

    /// Allows a parked decision in the name of the plugin.
    pub fn allow(&self, key: &BindingKey) {
        self.send(key, PermitDecision::Allow);
    }

    /// Rejects a parked decision in the name of the plugin. The scheduler writes the reason into the binding's
    /// condition.
    pub fn reject(&self, key: &BindingKey, reason: impl Into<String>) {
        self.send(key, PermitDecision::Reject(reason.into()));
    }

    /// Triggers [`Follow::refresh`](super::Follow::refresh) of all plugins.
    pub(crate) fn refresh(&self) {
        let unused = BindingKey {
            namespace: None,
            name: "".into(),
        };
        self.send(&unused, PermitDecision::Requeue(Vec::new()));
    }

    /// Requeues bindings after the plugin received new information. Before its next decision, the scheduler calls
    /// QueueSort for all these bindings, and makes the waiting bindings ready.
    pub fn look_again(&self, keys: Vec<BindingKey>) {
        if let Some(first) = keys.first().cloned() {
            self.send(&first, PermitDecision::Requeue(keys));
        }
    }

    fn send(&self, key: &BindingKey, decision: PermitDecision) {
        // The receiver is dropped only on shutdown.
        let _ = self.sender.send(PermitMessage {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            decision,
        });
    }
}

/// Read access to the bindings that the scheduler knows.
pub trait Bindings {
    /// Returns one binding.
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>>;
    /// Returns all bindings in no particular order.
    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_>;
}
