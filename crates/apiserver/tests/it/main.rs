//! What only the embedded server can be asked: hooks, folders of data, limits, certificates. What is asked of a real
//! kube-apiserver, too, is in the end-to-end tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::too_many_lines, reason = "tables of cases are long")]

mod admission;
mod durable;
mod events;
mod harness;
mod hook;
mod security;
mod webhooks;
