//! The controllers of Berth, except the scheduler. They create bindings from policies and resource templates, apply the
//! objects of placed bindings in member clusters, and collect the status of these objects.
//!
//! | module | controller |
//! |---|---|
//! | [`detector`] | creates a binding for each resource template that a policy selects |
//! | [`dependencies`] | propagates the objects that a template refers to, for example ConfigMaps |
//! | [`propagation`] | creates Works for placed bindings, applies them in members, and aggregates the status |
//! | [`failover`] | evicts bindings from clusters with taints, and from clusters where the application is unhealthy |
//! | [`hpa_scale_target_marker`] | labels the workloads that autoscalers scale, so that members keep the replicas |
//! | [`deployment_replicas_syncer`] | copies the number of replicas from the autoscalers in members to the template |
//! | [`workload_rebalancer`] | triggers the rescheduling of the workloads in a WorkloadRebalancer |
//! | [`cluster`] | maintains the execution namespace, finalizer and condition taints of Clusters |
//! | [`cluster_status`] | collects the status of Push clusters |
//! | [`federated_quota`] | distributes FederatedResourceQuotas to members, and computes their usage |
//! | [`taint_policy`] | adds and removes the taints that ClusterTaintPolicies define |
//! | [`namespace_sync`] | creates the namespaces of the control plane in members |
//! | [`unified_auth`] | lets the control plane impersonate the users of the cluster proxy in members |
//!
//! Several controllers use these modules:
//!
//! | module | purpose |
//! |---|---|
//! | `reconciler` | runs the controllers |
//! | [`monitor`] | records the metrics and the liveness of the controllers |
//! | `interpreter_configuration` | loads watched scripts and webhooks into the resource interpreter |
//! | `resource_interpreter` | runs the resource interpreter |
//! | `interpreter_webhooks` | calls the webhooks of the resource interpreter |
//! | `overrides` | applies override policies |
//! | [`member_client`] | creates clients for members |
//! | [`member_pods`] | lists the pods of workloads in members |
//! | `owned_work` | writes Works that belong to no binding |
//! | [`rest_mapper`] | finds the resource of a kind |
//!
//! The other modules are leaves, which import none of these modules: [`resource_selector`], [`resource_type`],
//! `binding_api`, [`self_created_objects`], [`did_you_mean`], `execution_namespace`, `fingerprint`
//! and `object_reference`.
//!
//! The controllers access API servers only through clients that they receive from the caller or create from a Cluster.
//! This crate must not depend on the scheduler or on the embedded API server. Decisions are pure functions. Tests
//! compare these functions with Karmada's behaviour.

// The derives of metric labels expand to paths into this name.
extern crate berth_metrics as prometheus_client;

mod binding_api;
pub mod cluster;
pub mod cluster_status;
pub mod dependencies;
pub mod deployment_replicas_syncer;
pub mod detector;
pub mod did_you_mean;
mod execution_namespace;
pub mod failover;
pub mod federated_quota;
mod fingerprint;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod hpa_scale_target_marker;
mod interpreter_configuration;
mod interpreter_webhooks;
pub mod member_client;
pub mod member_pods;
pub mod monitor;
pub mod namespace_sync;
mod object_reference;
mod overrides;
mod owned_work;
pub mod propagation;
pub mod recent_templates;
mod reconciler;
mod resource_interpreter;
pub mod resource_selector;
pub mod resource_type;
pub mod rest_mapper;
pub mod self_created_objects;
pub mod suspension;
pub mod taint_policy;
pub mod unified_auth;
pub mod workload_rebalancer;

pub use reconciler::ControllerError;
