//! The controllers around the scheduler: from policies and resource templates to bindings, from bindings into the
//! member clusters, and status back.
//!
//! | module | controller |
//! |---|---|
//! | [`detector`] | binds resource templates by policies: one binding for each matching template |
//! | [`dependencies`] | propagates the ConfigMaps, Secrets and other objects that a template refers to, along with it |
//! | [`propagation`] | creates Works for placed bindings, applies them in members, and aggregates status |
//! | [`failover`] | evicts bindings from tainted clusters and unhealthy applications |
//! | [`hpa_scale_target_marker`] | labels workloads with an autoscaler, so that members keep their replicas |
//! | [`deployment_replicas_syncer`] | writes the replicas that autoscalers in members chose into the template |
//! | [`workload_rebalancer`] | triggers a new scheduling on request |
//! | [`cluster`] | maintains the execution namespace, finalizer and condition taints of Clusters |
//! | [`cluster_status`] | collects the status of Push clusters |
//! | [`taint_policy`] | adds and removes taints by ClusterTaintPolicies |
//! | [`namespace_sync`] | creates namespaces in members |
//! | [`unified_auth`] | grants impersonation in members to users of the cluster proxy |
//!
//! Shared modules: `reconciler` is the runtime of the controllers; [`monitor`] measures them; `customizations` loads scripts
//! and webhooks into the interpreter; `resource_interpreter` runs it, and calls webhooks by `interpreter_webhooks`; `overrides` applies override policies; [`member_client`] connects to members; `owned_work`
//! writes Works without a binding; `rest_mapper` finds resources by kind.
//! [`resource_selector`], [`resource_type`], [`binding_key`], [`server_objects`], [`nearest`], `fingerprint`,
//! `condition`, `timestamp`, `object_reference` and `merge_diff` are leaves.
//!
//! The controllers reach API servers only through clients that they are given, or make from a Cluster object. They know
//! no scheduling engine and no embedded server. Decisions are pure functions, which the tests compare with Karmada's
//! behaviour.

pub mod binding_key;
pub mod cluster;
pub mod cluster_status;
mod condition;
mod customizations;
pub mod dependencies;
pub mod deployment_replicas_syncer;
pub mod detector;
pub mod failover;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod hpa_scale_target_marker;
mod interpreter_webhooks;
pub mod member_client;
mod merge_diff;
pub mod monitor;
pub mod namespace_sync;
pub mod nearest;
mod object_reference;
mod overrides;
mod owned_work;
pub mod propagation;
mod reconciler;
mod resource_interpreter;
pub mod resource_selector;
pub mod resource_type;
mod rest_mapper;
pub mod server_objects;
pub mod taint_policy;
mod timestamp;
pub mod unified_auth;
pub mod workload_rebalancer;

pub use reconciler::ControllerError;
