//! What is known of the kinds of resource: how many replicas a template wants and what each needs, what it names
//! that has to be where it is, what a member owns in its copy, what is reported of it, and what the reports make of
//! the template's status.
//!
//! This is Karmada's native resource interpreter for the built-in kinds, as pure functions over JSON. It must
//! not know policies, placements or who calls. A kind without a rule is no workload: the whole object goes to
//! each cluster, its whole status is reported, and it is healthy.

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

pub use aggregate::aggregate;
pub use dependencies::dependencies;
pub use health::{has_health, is_healthy};
pub use reflect::reflect;
pub use replicas::{InterpretError, Interpretation, interpret, is_interpreted};
pub use retain::retain;
pub(crate) use revise::kind_of;
pub use revise::{revise_completions, revise_replicas};
