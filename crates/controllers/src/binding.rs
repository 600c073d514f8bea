//! From a binding to Works: one for each cluster that the scheduler chose, in the cluster's execution
//! namespace.
//!
//! [`targets`] says which clusters, [`desired_work`] what each Work says, [`work_change`] what has to be
//! written for that; these are pure functions. [`sync`] does the reading and writing. Nothing here knows how a
//! Work gets into a member, or who calls when.

mod completions;
pub mod desired_work;
pub(crate) mod happenings;
mod preserved_state;
pub mod record;
pub(crate) mod sync;
pub mod targets;
pub mod work_change;
