//! Berth beside Karmada's own programs: its scheduler with our controllers, its controllers with our scheduler.
//!
//! Where `BERTH_E2E_KARMADA` names a folder with `karmada-scheduler` and `karmada-controller-manager`, these run, on the
//! embedded control plane and, where `KUBEBUILDER_ASSETS` says so, on a real kube-apiserver; there `karmada-webhook` of
//! the same folder does what our admission does on the embedded one. Otherwise objects stand in
//! that were recorded in such a run: `recorded`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod controllers;
mod manifests;
mod objects;
mod program;
mod recorded;
mod scene;
mod scheduler;
mod story;
mod webhook;
