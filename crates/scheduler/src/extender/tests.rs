//! Tests that call extenders in test servers.

mod bind;
mod connections;
mod example;
mod failures;
pub(crate) mod fake;
mod filter_and_score;
pub(crate) mod harness;
mod preempt;
mod tls;
