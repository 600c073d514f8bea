//! Interoperability with Karmada's programs: its scheduler with Berth's controllers, its controllers with Berth's
//! scheduler.
//!
//! If `BERTH_E2E_KARMADA` names a folder with `karmada-scheduler` and `karmada-controller-manager`, the tests run these
//! programs on the embedded control plane. With `KUBEBUILDER_ASSETS` they run on a real kube-apiserver, with
//! `karmada-webhook` of the same folder for admission. The module `recorded` needs no programs: it uses objects
//! recorded in such a run.

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
mod scenario;
mod scene;
mod scheduler;
mod swap;
mod webhook;
