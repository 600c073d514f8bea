//! What surrounds scheduling on a control plane: the [`detector`] turns policies and resource templates into
//! bindings; [`propagation`] turns placed bindings into Works, brings these into the members, and what is seen
//! there back; [`cluster`] and [`cluster_status`] look after the
//! members themselves, [`namespace_sync`] brings namespaces into them, and [`unified_auth`] the rights to act for users. [`dependencies`] lets what a resource names
//! follow it, [`failover`] takes bindings off clusters, and [`workload_rebalancer`] has them placed afresh on request.
//!
//! Controllers talk to API servers through clients that they are given or make from what a Cluster says, and to
//! nothing else: they know no engine, no scheduler and no embedded server. What can be decided without a server is
//! decided in pure functions, which the tests hold to Karmada's behaviour.

pub mod binding_key;
pub mod cluster;
pub mod cluster_status;
mod condition;
pub mod dependencies;
pub mod detector;
pub mod failover;
mod fingerprint;
mod informer;
pub mod interpreter;
mod json_fields;
mod json_size;
mod kinds;
pub mod member_client;
mod merge_diff;
pub mod namespace_sync;
pub mod nearest;
mod object_reference;
mod overrides;
mod owned_work;
pub mod propagation;
mod queue;
pub mod resource_selector;
pub mod resource_type;
pub mod server_objects;
pub mod taint_policy;
pub mod unified_auth;
pub mod workload_rebalancer;
