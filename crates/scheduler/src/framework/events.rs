//! Events that may make a stopped binding schedulable.
//!
//! A binding that a plugin stopped waits for an event that the plugin registered, and whose hint returns
//! [`Hint::Queue`]. All waiting bindings are also retried periodically, so a missed event delays a placement
//! but never prevents it.

use std::fmt;
use std::sync::Arc;

use berth_api::Cluster;

use crate::binding::Binding;

/// A change of a cluster or binding.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cluster was added or changed.
    Cluster(Arc<Cluster>),
    /// A cluster was deleted.
    ClusterGone(String),
    /// A binding was added or changed. Its clusters are the stored ones.
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
            Self::Binding(_) => EventKind::Binding,
            Self::BindingGone(_) => EventKind::BindingGone,
        }
    }
}

/// Effect of an event on a stopped binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The binding may be schedulable now: requeue it.
    Queue,
    /// The event does not help.
    Skip,
}

type Ask = dyn Fn(&Binding, &Event) -> Hint + Send + Sync;

/// Type of event that a plugin waits for, with a hint function.
#[derive(Clone)]
pub struct Registration {
    /// Type of event.
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

    /// Reports whether the event may help the binding.
    pub fn helps(&self, binding: &Binding, event: &Event) -> bool {
        event.kind() == self.kind && (self.hint)(binding, event) == Hint::Queue
    }
}
