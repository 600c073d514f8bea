//! The Karmada API as Rust types: fields, defaults, bounds, validation, names.
//!
//! Everything in the workspace that reads or writes an API object goes through this crate, so that a
//! field has one spelling and a rule has one place. It knows no client, no runtime and no scheduling.
//!
//! The field order of the types is that of the Go types: serialising a [`placement::Placement`] gives
//! the canonical JSON that Karmada keeps in the applied-placement annotation.

pub mod admission;
pub mod binding;
pub mod canonical;
pub mod cluster;
mod cluster_match;
pub mod component;
pub mod condition_message;
pub mod crds;
pub mod dependency;
pub mod go_zero;
pub mod manifest;
pub mod names;
mod open_enum;
pub mod override_policy;
pub mod placement;
mod placement_empties;
pub mod pod_requests;
pub mod policy;
mod root_kind;
pub mod selector;
pub mod taint_policy;
pub mod toleration;
pub mod well_known;
pub mod work;
pub mod workload_rebalancer;

pub use berth_apimachinery::quantity;
pub use binding::{ClusterResourceBinding, ResourceBinding};
pub use cluster::Cluster;
pub use override_policy::{ClusterOverridePolicy, OverridePolicy};
pub use policy::{ClusterPropagationPolicy, PropagationPolicy};
pub use taint_policy::ClusterTaintPolicy;
pub use work::Work;
pub use workload_rebalancer::WorkloadRebalancer;
