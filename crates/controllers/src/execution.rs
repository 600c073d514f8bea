//! Works into members, and what is seen there back into the status of the Works.
//!
//! ```text
//! Works, Cluster ──> member: one task for each cluster, with a queue and workers of its own
//!                      │ ▲
//!                      ▼ │ watches of what came from here, by kind
//!                   the member's API server
//! ```
//!
//! A member that is slow or dead holds up nobody but itself: nothing is shared between members. What has to be
//! done with a Work is decided in [`step`], what with each of its manifests in [`decision`], and what its status
//! says in [`work_status`]; these are pure. [`job`] carries it out, with [`manifest`] for what happens in the member.
//!
//! Nothing is taken over or deleted that does not carry the label `karmada.io/managed`, unless the Work says
//! `overwrite`. A deletion survives everything: the Work keeps its finalizer until it is done.

mod address;
pub mod decision;
mod happenings;
mod job;
mod manifest;
pub(crate) mod member;
mod objects;
mod record;
pub mod step;
pub mod work_status;
