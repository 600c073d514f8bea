//! Events that may make a waiting binding schedulable.
//!
//! After a plugin has stopped the cycle of a binding, the binding waits in the queue. Plugins register types of events,
//! each with a hint function. The scheduler requeues a waiting binding when a hint function returns [`Hint::Queue`] for
//! an event. The scheduler also retries all waiting bindings periodically, so a missed event only delays a placement.

use std::fmt;
use std::sync::Arc;

use berth_api::{Binding, Cluster};

/// A change of a cluster, its scores or a binding.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cluster was added or changed.
    Cluster(Arc<Cluster>),
    /// A cluster was deleted.
    ClusterGone(String),
    /// Scores of a cluster changed or expired. The event contains the name of the cluster.
    ClusterScores(String),
    /// A binding was added or changed. The event contains the stored binding, without an unstored decision.
    Binding(Arc<Binding>),
    /// A binding was deleted.
    BindingGone(Arc<Binding>),
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Clusters were added or changed.
    Cluster,
    /// Clusters were deleted.
    ClusterGone,
    /// Scores in ClusterScores changed or expired. Only plugins that [request scores](super::Plugin::reads_scores) get
    /// these events.
    ClusterScores,
    /// Bindings were added or changed.
    Binding,
    /// Bindings were deleted.
    BindingGone,
}

impl Event {
    /// Returns the type of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Cluster(_) => EventKind::Cluster,
            Self::ClusterGone(_) => EventKind::ClusterGone,
            Self::ClusterScores(_) => EventKind::ClusterScores,
            Self::Binding(_) => EventKind::Binding,
            Self::BindingGone(_) => EventKind::BindingGone,
        }
    }
}

/// Effect of an event on a waiting binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The binding may be schedulable now and is requeued.
    Queue,
    /// The binding continues to wait.
    Skip,
}

type Ask = dyn Fn(&Binding, &Event) -> Hint + Send + Sync;

/// A type of event that a plugin registers, with a hint function.
#[derive(Clone)]
pub struct Registration {
    /// The type of event.
    pub kind: EventKind,
    hint: Arc<Ask>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Registration {
    /// Registers every event of this type.
    pub fn any(kind: EventKind) -> Self {
        Self::hinted(kind, |_, _| Hint::Queue)
    }

    /// Registers the events of this type for which the hint returns [`Hint::Queue`].
    pub fn hinted(
        kind: EventKind,
        hint: impl Fn(&Binding, &Event) -> Hint + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            hint: Arc::new(hint),
        }
    }

    /// Reports whether the event has the registered type and may make the binding schedulable.
    pub fn helps(&self, binding: &Binding, event: &Event) -> bool {
        event.kind() == self.kind && (self.hint)(binding, event) == Hint::Queue
    }
}
