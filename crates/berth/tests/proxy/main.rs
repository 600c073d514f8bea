//! Tests of `clusters/NAME/proxy` on the API server of `berth up`: requests of clients, authorization and karmadactl.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod authorization;
mod backend;
mod forwarding;
mod karmadactl;
mod scene;
mod verbs;
