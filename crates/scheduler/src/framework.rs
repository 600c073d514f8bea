//! Plugin framework: plugins, their extension points, and their registry.
//!
//! `berth-core` has the extension points of a decision: PreFilter, Filter, PreScore, Score, Select and Assign.
//! This module has those around it, and [`Plugin`], [`Registry`] and [`Args`] for both. Plugins know bindings,
//! clusters and results of decisions, but not queues, watches or leases.

pub(crate) mod args;
mod decided;
pub(crate) mod events;
pub(crate) mod extension_points;
pub(crate) mod follow;
pub(crate) mod handle;
pub(crate) mod permit;
pub(crate) mod plugin;
pub(crate) mod points;
pub(crate) mod preempt;
pub(crate) mod priority_sort;
pub(crate) mod registry;
pub(crate) mod state;

pub use args::{Args, ArgsError};
pub use decided::Decided;
pub use events::{Event, EventKind, Hint, Registration};
pub use follow::Follow;
pub use handle::Handle;
pub use permit::{Bindings, Permits, Waiting};
pub use plugin::Plugin;
pub use points::{
    Bind, Bound, Gate, Permission, Permit, PostBind, PostFilter, PreBind, PreEnqueue, QueueSort,
    Rank, Reserve,
};
pub use preempt::{Nomination, PostFilterContext, Victim};
pub use priority_sort::PrioritySort;
pub use registry::{Enablement, Factory, FactoryError, Registry, RegistryError, UnknownPlugin};
pub use state::State;

pub use crate::writer::Report;
