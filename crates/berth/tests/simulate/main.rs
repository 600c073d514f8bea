//! `berth simulate`, as its users run it.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod against;
mod claims;
mod docs;
mod estimators;
mod manifests;
mod output;
mod policies;
mod program;
mod what_if;
