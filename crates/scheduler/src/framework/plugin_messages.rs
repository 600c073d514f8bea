//! Messages of plugins to the scheduler. They requeue bindings, and allow or reject parked decisions. A decision is
//! parked while it waits for the permission of a Permit plugin.

use std::sync::Arc;

use berth_api::BindingKey;
use tokio::sync::mpsc;

/// A message of a plugin to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PluginMessage {
    /// Requests that the scheduler calls [`Follow::refresh`](super::Follow::refresh) of all plugins, and requeues these
    /// bindings.
    Requeue(Vec<BindingKey>),
    /// Allows or rejects the parked decision about a binding.
    Decide {
        plugin: Arc<str>,
        key: BindingKey,
        decision: PermitDecision,
    },
}

/// The decision of a Permit plugin about a parked decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PermitDecision {
    Allow,
    /// Rejects the parked decision for this reason.
    Reject(String),
}

/// A handle with which any task of a plugin allows and rejects parked decisions and requeues bindings, outside a
/// scheduling cycle.
#[derive(Clone, Debug)]
pub struct Permits {
    plugin: Arc<str>,
    sender: mpsc::UnboundedSender<PluginMessage>,
}

impl Permits {
    pub(crate) fn new(plugin: &str, sender: mpsc::UnboundedSender<PluginMessage>) -> Self {
        Self {
            plugin: plugin.into(),
            sender,
        }
    }

    /// Allows a parked decision in the name of the plugin.
    pub fn allow(&self, key: &BindingKey) {
        self.decide(key, PermitDecision::Allow);
    }

    /// Rejects a parked decision in the name of the plugin. The scheduler writes the reason into the binding's
    /// condition.
    pub fn reject(&self, key: &BindingKey, reason: impl Into<String>) {
        self.decide(key, PermitDecision::Reject(reason.into()));
    }

    /// Triggers [`Follow::refresh`](super::Follow::refresh) of all plugins.
    pub(crate) fn refresh(&self) {
        self.send(PluginMessage::Requeue(Vec::new()));
    }

    /// Requeues bindings after the plugin received new information. Before its next decision, the scheduler calls
    /// QueueSort for all these bindings, and makes the waiting bindings ready.
    pub fn requeue(&self, keys: Vec<BindingKey>) {
        if !keys.is_empty() {
            self.send(PluginMessage::Requeue(keys));
        }
    }

    fn decide(&self, key: &BindingKey, decision: PermitDecision) {
        self.send(PluginMessage::Decide {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            decision,
        });
    }

    fn send(&self, message: PluginMessage) {
        // The receiver is dropped only on shutdown.
        let _ = self.sender.send(message);
    }
}
