//! The resource interpreter: replicas, dependencies, retained fields, reported status, aggregated status and health of
//! the built-in kinds.
//!
//! It equals Karmada's native interpreter, as pure functions over JSON, and must not know policies, placements or its
//! callers. A kind without a rule has no replicas and no dependencies, its whole status is reported, and it is healthy.
//!
//! | module | operation |
//! |---|---|
//! | `replicas` | reads replicas and requirements of a template (`requirements`, `pod_requests`) |
//! | `revise` | sets the replicas of a manifest |
//! | `dependencies` | finds the objects that a template references |
//! | `retain` | keeps fields that a member owns |
//! | `reflect` | selects the status that a member reports |
//! | `aggregate` | builds the template's status from the reports |
//! | `health` | judges an object in a member |
//! | `workloads`, `counters` | tables of the kinds with replicas or pods, and of those with counters in their status |

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

pub(crate) use aggregate::aggregate;
pub(crate) use dependencies::dependencies;
pub(crate) use health::{has_health_rule, is_healthy};
pub(crate) use reflect::reflect;
pub use replicas::{InterpretError, Interpretation, interpret, is_interpreted};
pub(crate) use retain::retain;
pub(crate) use revise::{revise_completions, revise_replicas};
