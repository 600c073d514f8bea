//! The execution controller. It applies Works to their members, and reports the results in the status of the Works.
//!
//! ```text
//! Works, Cluster ──> member: one task per cluster, with a queue and jobs
//!                      │ ▲
//!                      ▼ │ watches of managed objects, by kind
//!                   API server of the member
//! ```
//!
//! The tasks of members share no state, so that a slow or unreachable member does not delay other members. [`member`]
//! owns the state of one member. Pure functions decide the action for a Work ([`work_action`]) and for each of its
//! objects ([`drift`], [`difference`]), and compute the status of the Work ([`work_status`]). `work_executor` executes
//! the action for a Work, and `apply_object` and `member_object` send the requests about one object. `pod_looks` tells why
//! workloads stay unhealthy.
//!
//! An object without the label `karmada.io/managed`, or of another control plane ([`ownership`]), is never deleted, and
//! is overwritten only if the conflict resolution is `overwrite`. An object that a Work no longer contains is deleted
//! ([`removed_objects`]). A Work keeps its finalizer until its objects are gone, so that a restart does not lose deletions,
//! and so that a client that waits for the Work also waits for the objects.

mod applied_state;
mod apply_object;
mod connection;
pub mod difference;
pub(crate) mod drift;
mod drift_condition;
mod drift_events;
mod manifest_outcome;
pub(crate) mod member;
mod member_object;
pub(crate) mod object_cache;
pub(crate) mod ownership;
mod pod_looks;
mod recorded_events;
mod removed_objects;
pub(crate) mod work_action;
pub(crate) mod work_executor;
mod work_record;
pub(crate) mod work_status;
