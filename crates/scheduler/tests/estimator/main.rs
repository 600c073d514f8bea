//! Tests of the estimator client with fake estimator servers, and with the estimator of Berth. The client finds the
//! servers through Services of an embedded control plane.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod answers;
mod connections;
mod decision;
mod fake;
mod fixture;
mod secured;
mod server;
mod service;
mod wire;
