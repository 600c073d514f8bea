//! Drives a running server with the clients people use: kube over TLS, and kubectl where it is installed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::too_many_lines, reason = "a walk through kubectl is one story")]

mod admission;
mod collection;
mod custom;
mod durable;
mod harness;
mod kubectl;
mod security;
