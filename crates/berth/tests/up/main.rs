//! `berth up` as a person meets it: what it leaves behind, what it says when it cannot start, its members, and the
//! commands that find it again.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod answers;
mod clusters;
mod documented;
mod durable;
mod instance;
mod leaving;
mod members;
mod program;
mod start;
mod telling;
mod watching;
mod web_application;
mod without;
mod workloads;
