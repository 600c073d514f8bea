//! The framework: what a plugin is, where it can act, and how it is found.
//!
//! `berth-core` has the extension points of a decision: PreFilter, Filter, PreScore, Score, Select and
//! Assign. Here are those around it, and what ties both together: [`Plugin`], [`Registry`], [`Args`]. A plugin knows
//! bindings, clusters and the results of decisions; it does not know queues, watches or leases.

pub mod args;
pub(crate) mod assembly;
pub mod events;
pub mod follow;
pub mod handle;
mod in_tree;
pub mod plugin;
pub mod points;
pub mod preempt;
pub mod priority_sort;
pub mod profile;
pub mod registry;
pub(crate) mod runtime;
pub(crate) mod service_points;
pub mod state;
pub mod waiting;

pub use args::{Args, ArgsError};
pub use events::{Event, EventKind, Hint, Registration};
pub use follow::Follow;
pub use handle::Handle;
pub use plugin::Plugin;
pub use points::{
    Bind, Bound, Decided, Gate, Permission, Permit, PostBind, PostFilter, PreBind, PreEnqueue,
    QueueSort, Rank, Reserve,
};
pub use preempt::{Nomination, PostFilterContext, Victim};
pub use priority_sort::PrioritySort;
pub use profile::ProfileError;
pub use registry::{Factory, FactoryError, Registry, RegistryError, Standing, UnknownPlugin};
pub use state::State;
pub use waiting::{Bindings, Permits, Waiting};
