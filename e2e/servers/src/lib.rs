//! Servers that the tests of several crates call. This crate depends on no other crate of the workspace, so that unit
//! tests can use it.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

mod authority;
mod fake_extender;
mod webhook_server;

pub use authority::{Authority, Clients};
pub use fake_extender::{FakeExtender, ReceivedRequest, ScriptedResponse};
pub use webhook_server::{Mode, WebhookResponse, WebhookServer, allowed, patched};
