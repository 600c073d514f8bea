//! Scheduler services available to plugins.

use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::plugin_messages::{Permits, PluginMessage};
use super::state::State;
use crate::template::Templates;

/// Scheduler services available to a plugin, in addition to the arguments of its extension points.
#[derive(Clone)]
pub struct Handle {
    pub(crate) scheduler_name: Arc<str>,
    pub(crate) gates: EngineGates,
    pub(crate) client: Client,
    pub(crate) messages: mpsc::UnboundedSender<PluginMessage>,
    pub(crate) stopping: CancellationToken,
    pub(crate) templates: Templates,
    pub(crate) state: State,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("scheduler_name", &self.scheduler_name)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Returns the scheduler name of the profile.
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// Returns the feature gates of the engine.
    pub fn gates(&self) -> EngineGates {
        self.gates
    }

    /// Returns a client of the control plane. Code at extension points on the scheduler's task must not use the client,
    /// because I/O would delay all other decisions.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a handle with which the plugin's own tasks allow or reject decisions that wait for Permit, and requeue
    /// bindings.
    pub fn permits(&self, plugin: &str) -> Permits {
        Permits::new(plugin, self.messages.clone())
    }

    /// Returns a cache of the labels and QoS classes of the objects that bindings propagate. The cache watches a kind
    /// after the first lookup of an object of this kind.
    pub fn templates(&self) -> Templates {
        self.templates.clone()
    }

    /// Returns the clusters and bindings that the scheduler knows. A plugin may read them at any extension point and on
    /// any task.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Returns a token that is cancelled when the scheduler stops, or when a configuration change replaces the profile.
    /// The tasks of the plugin must then end.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }
}
