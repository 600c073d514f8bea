//! The scheduler service on a running control plane: what it writes, that it writes nothing twice, and what
//! becomes of its work when the API server, the network or the process itself fails.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::default_trait_access,
    reason = "this is how a test fails, and parameters that say nothing need no name"
)]

#[cfg(target_os = "linux")]
mod clock;
mod credentials;
mod election;
mod endings;
mod faults;
mod flags;
mod hints;
mod malformed;
mod names;
mod objects;
mod process;
mod protection;
mod scene;
mod takeover;
mod watching;
mod writes;
