//! Rules for the kinds of Kubernetes, equal to Karmada's native interpreter, as pure functions over JSON. An object of
//! a kind without a rule has no replicas and no dependencies, reports its whole status, and is healthy.
//!
//! | module | operation |
//! |---|---|
//! | `replicas` | reads replicas and requirements of a template (`requirements`, `pod_requests`) |
//! | `revise` | sets the replicas of a manifest |
//! | `dependencies` | finds the objects that a template references |
//! | `retain` | retains fields that a member owns |
//! | `reflect` | selects the status that a member reports |
//! | `aggregate` | builds the status of a template from the members' reports |
//! | `health` | reports whether an object in a member is healthy |
//! | `workloads` | the table of the kinds that run pods |
//! | `counters` | the table of the kinds with counters in their status |

mod aggregate;
mod counters;
mod dependencies;
mod health;
mod pod_requests;
mod reflect;
mod replicas;
mod requirements;
mod retain;
mod revise;
mod workloads;

pub(crate) use aggregate::{aggregate, changed_status};
pub(crate) use dependencies::{dependencies, pod_dependencies};
pub(crate) use health::{has_health_rule, is_healthy};
pub(crate) use reflect::{MAX_REPORT_BYTES, reflect};
pub(crate) use replicas::{interpret, is_interpreted, pod_requirements};
pub(crate) use retain::{retain_fields, retain_metadata};
pub use revise::revise_completions;
pub(crate) use revise::revise_replicas;
