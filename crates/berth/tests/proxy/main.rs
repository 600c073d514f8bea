//! `clusters/NAME/proxy` on the API server of `berth up`: what clients of a member see through it, who may use it, and what
//! karmadactl does with it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod backend;
mod karmadactl;
mod passing;
mod rights;
mod scene;
mod verbs;
