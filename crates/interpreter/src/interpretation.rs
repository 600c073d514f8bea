//! Replicas of a workload, and the requirements of each.

use serde_json::Value;

/// The interpretation of a workload template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpretation {
    /// The total number of replicas.
    pub replicas: i32,
    /// The requirements of a replica, as `spec.replicaRequirements` of a binding.
    pub requirements: Option<Value>,
    /// The priority class of the pods.
    pub priority_class_name: Option<String>,
}
