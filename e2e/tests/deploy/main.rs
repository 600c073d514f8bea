//! The manifests of `deploy/` on a real kube-apiserver: each component runs with the command of its Deployment and the
//! rights of its account, can do its work, and uses every right. Also tests `berth join`, the chart and the overlays.

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
