//! Clusters that join a control plane and leave it, and what is done with members: the commands as a person runs them,
//! against servers of their own for the control plane and the members.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod documented;
mod joining;
mod leaving;
mod managing;
mod refusals;
mod scene;
mod sharing;
