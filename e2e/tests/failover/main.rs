//! Failover on a running control plane: what leaves a cluster, where it goes, and when its old copy may go.
//! The health that members would report is written by the tests.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod application;
mod budget;
mod policies;
mod scene;
mod taints;
