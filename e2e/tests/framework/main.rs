//! Plugins, profiles and the configuration on a running control plane.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod around;
mod brittle;
mod broken;
mod documents;
mod measured;
mod profiles;
mod reload;
mod scene;
mod spy;
mod together;
