//! The manifests of `deploy/` on a real kube-apiserver: each component runs with the command of its Deployment and the
//! rights of its account, can do its work, and uses every right. Also tests `berth join`.
//!
//! These tests need `KUBEBUILDER_ASSETS` and kubectl; without them they are ignored.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod audit;
mod component;
mod control_plane;
mod controllers;
mod joining;
mod rights;
mod schedulers;
