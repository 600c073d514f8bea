//! The plugin framework: plugins, their extension points, and their registry.
//!
//! `berth-engine` defines the extension points within a decision: PreFilter, Filter, PreScore, Score, Select and Assign.
//! This module defines the extension points before and after a decision. The types [`Plugin`], [`Registry`] and
//! [`Args`] are for plugins at all extension points. The API gives plugins access to bindings, clusters and results of
//! decisions. It hides queues, watches and leases.

pub(crate) mod args;
pub(crate) mod events;
pub(crate) mod handle;
pub(crate) mod plugin;
pub(crate) mod plugin_calls;
pub(crate) mod plugin_messages;
pub(crate) mod registry;
pub(crate) mod state;
pub(crate) mod traits;

pub use args::{Args, ArgsError};
pub use events::{Event, EventKind, Hint, Registration};
pub use handle::Handle;
pub use plugin::Plugin;
pub use plugin_messages::Permits;
pub use registry::{Enablement, Factory, FactoryError, Registry, RegistryError, UnknownPlugin};
pub(crate) use state::DecisionFate;
pub use state::State;
pub use traits::{
    Bind, Bindings, Bound, Decided, Follow, Gate, Nomination, Permission, Permit, PostBind,
    PostFilter, PostFilterContext, PreBind, PreEnqueue, QueueSort, Rank, Reserve, Victim, Waiting,
};

pub use crate::writer::{Progress, Report};
