//! The planner: what the scheduler decides, and why, without a write to a control plane. The command line and the
//! dashboard call it.
//!
//! - [`simulate`]: decisions about manifests, and the moves that manifests or changes of the fleet would cause.
//! - [`explain`]: the report about the decision for one binding.
//! - [`diagnose`]: whether one workload is well, where it is stuck, and why.
//! - [`diff`]: the differences between template, wanted objects and objects in members of one binding.
//! - [`what_if`]: the placements before and after a change, computed with the rules and the engine of the scheduler.
//! - [`scheduler_configuration`], [`scheduler_endpoint`]: the configuration for scheduling decisions, and the client
//!   for a running scheduler.
//! - `served_kinds`, `well_known_types`: the kinds of API servers. `member_access`: the way to the members.
//! - `control_plane_state`, [`control_plane_lists`], `binding_objects`: the clusters and bindings of a control plane, and
//!   the objects of one binding.
//!
//! The crate knows neither command lines nor the form of the output.

mod binding_objects;
pub mod control_plane_lists;
mod control_plane_state;
pub mod diagnose;
pub mod diff;
pub mod explain;
mod member_access;
pub mod scheduler_configuration;
pub mod scheduler_endpoint;
mod served_kinds;
pub mod simulate;
mod well_known_types;
pub mod what_if;
