//! The manifests of `deploy/` on a real kube-apiserver: each component, run by the command of its Deployment
//! and with the rights of its account, can do its work, and uses every right that it is given. And clusters join.
//!
//! These tests need `KUBEBUILDER_ASSETS` and kubectl; elsewhere they say so and end.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod audit;
mod component;
mod controllers;
mod joining;
mod place;
mod rights;
mod schedulers;
