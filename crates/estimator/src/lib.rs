//! Karmada's scheduler-estimator: a server beside member clusters that counts the replicas that fit into a cluster.
//!
//! ```text
//! API server of the member ── watches ──> ClusterState <── EstimatorService <── gRPC ── schedulers
//! ```
//!
//! The core is pure: [`ClusterState`] follows events about objects, and answers requests. It has no clients, no tasks
//! and no clock.
//!
//! | module | contents |
//! |---|---|
//! | `estimate` | [`ClusterState`], and its answers to requests |
//! | `nodes` | nodes with their free resources; the simulated placement of pods |
//! | `devices` | free devices of the nodes by device class |
//! | `node_claim` | the condition that a pod template sets on nodes |
//! | `pod_template` | templates, components and assumed workloads, decoded from requests |
//! | `pod_requests` | the resource requests of a pod |
//! | `priority` | priority classes |
//! | `quota` | limits by ResourceQuotas |
//! | `unschedulable` | the unschedulable pods of workloads |
//! | `owned_index` | objects by their name and by their owner |
//! | `run` | assembly of the parts below for one member: [`run()`] |
//! | `shared_server` | assembly of the parts below for several members in one process: [`SharedServer`] |
//! | `watches` | watches of the member, which update the state |
//! | `service` | the gRPC service |
//! | `server`, `tls` | listener, connections and TLS of the gRPC server |
//! | `metrics` | metrics of requests |
//!
//! The crate must not contain policies, bindings and decisions, and must not depend on the scheduler.

// The derives of metric labels expand to paths into this name.
extern crate berth_metrics as prometheus_client;

mod devices;
mod estimate;
mod metrics;
mod node_claim;
mod nodes;
mod owned_index;
mod pod_requests;
mod pod_template;
mod priority;
mod quota;
mod run;
mod server;
mod service;
mod shared_server;
mod tls;
mod unschedulable;
mod watches;

pub use estimate::{ClusterState, Plugin, PluginRunner, Rules, Unmeasured};
pub use run::{EstimatorAddresses, EstimatorOptions, StartError, run};
pub use shared_server::SharedServer;
pub use tls::{TlsError, TlsFiles};
