//! The execution controller: applies Works to their members and reports the result in the Works' status.
//!
//! ```text
//! Works, Cluster ──> member: one task per cluster, with a queue and workers
//!                      │ ▲
//!                      ▼ │ watches of managed objects, by kind
//!                   API server of the member
//! ```
//!
//! Members share no state: a slow or unreachable one delays no other. Pure functions decide the action for a Work
//! ([`work_action`]) and for each of its objects ([`drift`]), and build the status ([`work_status`]). `worker` sends
//! the requests, with `member_object` for a single object; [`member`] owns the state.
//!
//! Objects without the label `karmada.io/managed` are never deleted, and overwritten only if the conflict resolution is
//! `overwrite`. Deletions survive restarts: a Work keeps its finalizer until its objects are deleted.

mod connection;
pub(crate) mod drift;
mod events;
pub(crate) mod member;
mod member_object;
mod object_cache;
pub(crate) mod work_action;
mod work_record;
pub(crate) mod work_status;
pub(crate) mod worker;
