//! What a resource template wants: how many replicas, and what each of them needs.
//!
//! This is Karmada's native resource interpreter for the built-in workload kinds, as pure functions over
//! the template's JSON. It must not know policies or bindings. A kind without an interpretation is no
//! workload: the whole object goes to each cluster.

mod pod_requests;
mod replicas;
mod requirements;

pub use replicas::{InterpretError, Interpretation, interpret, is_interpreted};
