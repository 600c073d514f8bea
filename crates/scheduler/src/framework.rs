//! The plugin framework: plugins, their extension points, and their registry.
//!
//! `berth-core` defines the extension points within a decision: PreFilter, Filter, PreScore, Score, Select and Assign.
//! This module defines the extension points before and after a decision. The types [`Plugin`], [`Registry`] and
//! [`Args`] are for plugins at all extension points. The API gives plugins access to bindings, clusters and results of
//! decisions. It hides queues, watches and leases.

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
