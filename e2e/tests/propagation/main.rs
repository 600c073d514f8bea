//! Tests of propagation with a control plane and several members. The controllers create, correct and delete objects in
//! the members, and report the status of these objects.
//!
//! If `KUBEBUILDER_ASSETS` names a folder with `kube-apiserver` and `etcd`, each member is a real kube-apiserver.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "json! literals are passed by value"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod cluster_proxy;
mod clusters;
mod delivery;
mod dependencies;
mod drain;
mod drift;
mod faults;
mod fleet;
mod forged_status;
mod graceful_eviction;
mod health;
mod interpreter;
mod interpreter_webhooks;
mod jobs;
mod manifests;
mod member_defaults;
mod migration;
mod namespace_sync;
mod override_policies;
mod overriders;
mod ownership;
mod quotas;
mod request_budget;
mod state_preservation;
mod status_aggregation;
mod status_reporting;
mod suspension;
