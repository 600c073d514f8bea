//! Tests of the manifests in `deploy/` on kube-apiserver. Each component runs with the command of its Deployment and
//! the rights of its ServiceAccount, and must work with these rights. The schedulers and the controllers must also use
//! each of their rights. Further tests cover `berth join`, the Helm chart and the kustomize overlays.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod audit;
mod chart;
mod component;
mod control_plane;
mod controllers;
mod joining;
mod rights;
mod schedulers;
mod stand_alone;
