//! [`Interpretation`]: the replicas of a workload template, the requirements of each replica, and the priority class.

use serde_json::Value;

/// The replicas and requirements that the interpreter reads from a workload template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpretation {
    /// The total number of replicas.
    pub replicas: i32,
    /// The requirements of each replica, as in `spec.replicaRequirements` of a binding.
    pub requirements: Option<Value>,
    /// The priority class of the pods.
    pub priority_class_name: Option<String>,
}
