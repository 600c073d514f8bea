//! Tests that run only against the embedded server: admission hooks, webhooks, data folders, limits and certificates.
//! Tests that also run against a kube-apiserver are in `e2e/tests/apiserver`.

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
mod security;
mod webhooks;
