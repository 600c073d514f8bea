//! The Karmada API as Rust types: fields, defaults, validation and names.
//!
//! All crates that read or write Karmada objects use these types, so each field and rule is defined once. The crate
//! contains no client, no runtime and no scheduler.
//!
//! | module | contents |
//! |---|---|
//! | [`policy`], [`override_policy`], [`taint_policy`] | the policies |
//! | [`placement`], [`field_selector`], [`label_selector`], [`toleration`] | the placement in a policy or binding |
//! | [`binding`], [`decoded_binding`], [`binding_key`] | bindings as API objects, decoded, and their identity |
//! | [`replica_limits`] | limits on the replicas of each cluster |
//! | [`work`] | Works |
//! | [`cluster`] | member clusters |
//! | [`cluster_score`] | numbers about clusters that other programs report |
//! | [`federated_resource_quota`], [`federated_quota`] | quotas over all clusters; usage of bindings, charges |
//! | [`cluster_queue`] | queues of the scheduler, specific to Berth |
//! | [`interpreter_customization`] | scripts that interpret the objects of a kind |
//! | [`interpreter_webhook`], [`interpreter_context`] | webhooks that interpret objects; their requests and responses |
//! | [`workload_rebalancer`] | requests to reschedule workloads |
//! | [`dependency`] | references to dependencies of a resource |
//! | [`admission`] | defaults and validation by Karmada's webhooks |
//! | [`crds`] | the CustomResourceDefinitions of these types |
//! | [`manifest`] | preparation of manifests for member clusters |
//! | [`names`], [`well_known`] | derived names; labels, annotations, finalizers, namespaces |
//! | [`go_json`], [`go_zero`] | JSON as Go's encoder writes it |
//! | [`pod_requests`], [`quantity`] | resource requests of pods; resource quantities |
//! | [`node_resources`] | resources of nodes that schedulers count, and their units |
//! | [`node_pools`], [`node_requirements`] | summary of a cluster's nodes; requirements of pod templates on nodes |
//! | [`condition`], [`condition_message`] | status conditions; length of their messages |
//! | [`feature_gates`] | the feature gates of all programs |
//!
//! The fields have the order of the Go types. Therefore a serialized [`placement::Placement`] equals the text in
//! Karmada's applied-placement annotation:
//!
//! ```
//! use berth_api::go_json::placement_json;
//! use berth_api::placement::Placement;
//! use serde_json::json;
//!
//! let placement: Placement = serde_json::from_value(json!({
//!     "replicaScheduling": { "replicaSchedulingType": "Duplicated" },
//!     "clusterAffinity": { "clusterNames": ["member1"] },
//! }))?;
//! assert_eq!(
//!     placement_json(&placement)?,
//!     r#"{"clusterAffinity":{"clusterNames":["member1"]},"replicaScheduling":{"replicaSchedulingType":"Duplicated"}}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

#![expect(
    clippy::duplicated_attributes,
    reason = "the columns of `kube` attributes have the same keys"
)]

pub mod admission;
pub mod binding;
pub mod binding_key;
pub mod cluster;
mod cluster_match;
pub mod cluster_queue;
pub mod cluster_score;
pub mod condition;
pub mod condition_message;
pub mod crds;
pub mod decoded_binding;
pub mod dependency;
pub mod feature_gates;
pub mod federated_quota;
pub mod federated_resource_quota;
mod field_schema;
pub mod field_selector;
pub mod go_json;
pub mod go_zero;
pub mod interpreter_context;
pub mod interpreter_customization;
pub mod interpreter_webhook;
pub mod manifest;
pub mod names;
pub mod node_pools;
pub mod node_requirements;
pub mod node_resources;
mod open_enum;
pub mod override_policy;
pub mod placement;
pub mod pod_requests;
pub mod policy;
pub mod protected_fields;
pub mod replica_limits;
pub mod taint_policy;
pub mod toleration;
pub mod well_known;
pub mod work;
pub mod workload_rebalancer;

pub use berth_apimachinery::{label_selector, quantity};
pub use binding::{ClusterResourceBinding, ResourceBinding};
pub use binding_key::{BindingKey, BindingKind};
pub use cluster::Cluster;
pub use cluster_queue::ClusterQueue;
pub use cluster_score::ClusterScore;
pub use decoded_binding::Binding;
pub use federated_resource_quota::FederatedResourceQuota;
pub use interpreter_customization::ResourceInterpreterCustomization;
pub use interpreter_webhook::ResourceInterpreterWebhookConfiguration;
pub use override_policy::{ClusterOverridePolicy, OverridePolicy};
pub use policy::{ClusterPropagationPolicy, PropagationPolicy};
pub use taint_policy::ClusterTaintPolicy;
pub use work::Work;
pub use workload_rebalancer::WorkloadRebalancer;
