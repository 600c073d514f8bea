//! What a plugin is given when it is made.

use std::sync::Arc;

use berth_core::Gates;
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::state::State;
use super::waiting::{Permits, Said};
use crate::template::Templates;

/// What a plugin may use besides what each extension point shows it.
#[derive(Clone)]
pub struct Handle {
    pub(crate) scheduler_name: Arc<str>,
    pub(crate) gates: Gates,
    pub(crate) client: Client,
    pub(crate) said: mpsc::UnboundedSender<Said>,
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
    /// The name that the profile answers to.
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// The feature gates of the decision.
    pub fn gates(&self) -> Gates {
        self.gates
    }

    /// The control plane. Not for points on the owner's task, which do no I/O.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// For a plugin that lets waiting decisions pass from a task of its own.
    pub fn permits(&self, plugin: &str) -> Permits {
        Permits::new(plugin, self.said.clone())
    }

    /// What is known of the objects that bindings propagate. Kinds that no plugin asks for are not read.
    pub fn templates(&self) -> Templates {
        self.templates.clone()
    }

    /// The fleet and the bindings as the scheduler knows them, for any point and any task.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Cancelled when the profile ends, with the service or because the configuration has changed: tasks of
    /// a plugin end then.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }
}
