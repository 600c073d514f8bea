//! Interoperability with Karmada's programs: Karmada's scheduler with Berth's controllers, and Karmada's controllers
//! with Berth's scheduler.
//!
//! If `BERTH_E2E_KARMADA` names a folder with `karmada-scheduler` and `karmada-controller-manager`, the tests run these
//! programs on the embedded control plane. If `KUBEBUILDER_ASSETS` is set too, the control plane is a kube-apiserver,
//! and `karmada-webhook` of the same folder provides admission. The module [`recorded`] needs no program of Karmada: it
//! uses objects that an earlier run has recorded.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod controllers;
mod estimators;
mod manifests;
mod program;
mod recorded;
mod scenario;
mod scene;
mod scheduler;
mod swap;
mod webhook;
