//! EventsToRegister: which changes may help a binding that a plugin has stopped.
//!
//! A binding that a plugin stopped sleeps until something happens that the plugin has registered for, and
//! whose hint says that it may help this binding. A slow flush looks at all of them from time to time, so a
//! missing event costs time and never a placement.

use std::fmt;
use std::sync::Arc;

use berth_api::Cluster;

use crate::binding::Binding;

/// Something that has changed.
#[derive(Clone, Debug)]
pub enum Event {
    /// A cluster is new, or other than it was.
    Cluster(Arc<Cluster>),
    /// A cluster is gone.
    ClusterGone(String),
    /// A binding is new, or other than it was. A placed one is told of once it is stored.
    Binding(Arc<Binding>),
    /// A binding is gone.
    BindingGone(Arc<Binding>),
}

/// Which kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Clusters come and change.
    Cluster,
    /// Clusters go.
    ClusterGone,
    /// Bindings come and change.
    Binding,
    /// Bindings go.
    BindingGone,
}

impl Event {
    /// Which kind of change it is.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Cluster(_) => EventKind::Cluster,
            Self::ClusterGone(_) => EventKind::ClusterGone,
            Self::Binding(_) => EventKind::Binding,
            Self::BindingGone(_) => EventKind::BindingGone,
        }
    }
}

/// What a change means to a stopped binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It may fit now.
    Queue,
    /// It does not help.
    Skip,
}

type Ask = dyn Fn(&Binding, &Event) -> Hint + Send + Sync;

/// A registration: a kind of change, and the question whether it helps a binding.
#[derive(Clone)]
pub struct Registration {
    /// The kind of change.
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
    /// Every change of this kind may help.
    pub fn any(kind: EventKind) -> Self {
        Self::hinted(kind, |_, _| Hint::Queue)
    }

    /// A change of this kind may help where the hint says so.
    pub fn hinted(
        kind: EventKind,
        hint: impl Fn(&Binding, &Event) -> Hint + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            hint: Arc::new(hint),
        }
    }

    /// Whether the change may help the binding.
    pub fn helps(&self, binding: &Binding, event: &Event) -> bool {
        event.kind() == self.kind && (self.hint)(binding, event) == Hint::Queue
    }
}
