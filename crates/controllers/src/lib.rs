//! What surrounds scheduling on a control plane: today the [`detector`], which turns policies and resource
//! templates into bindings.
//!
//! Controllers talk to an API server through a client that they are given, and to nothing else: they know
//! no engine, no scheduler and no embedded server. What can be decided without a server is decided in pure
//! functions, which the tests hold to Karmada's behaviour.

pub mod binding;
mod condition;
pub mod detector;
pub mod events;
pub mod execution;
mod informer;
pub mod interpreter;
mod kinds;
pub mod member_client;
mod merge_diff;
pub mod overrides;
pub mod propagation;
mod queue;
pub mod status;
