//! Karmada's admission rules for its own kinds, as pure functions on JSON: the rules of its webhooks and of its
//! registry strategies.
//!
//! [`mutate`] sets ids, finalizers and defaults before the schema is checked. [`validate`] rejects invalid objects
//! after that check. Both functions work on JSON, so unknown fields are kept. An [`Environment`] supplies the current
//! time and new ids. Most bounds and enums are checked by the schema only.

mod affinity_rules;
mod binding;
mod bounds;
mod cluster_defaults;
mod cluster_rules;
mod deletion;
mod failover_rules;
mod field_error;
mod interpreter_webhook_rules;
mod metadata;
mod override_rules;
mod placement_rules;
mod policy_defaults;
mod policy_rules;
mod quota_rules;
mod resource_models;
mod taint_policy_rules;
#[cfg(test)]
mod tests;
mod url_parts;
mod work;

pub use deletion::{DeletionProtected, check_deletion};
pub use field_error::{FieldError, Reason};
pub use policy_defaults::complete_policy;
pub use taint_policy_rules::check_no_execute;

use serde::Serialize;
use serde_json::Value;

use crate::{go_zero, well_known};

/// The operation that a request performs on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a new object.
    Create,
    /// Updates a stored object.
    Update,
}

/// The kinds that have admission rules in addition to their schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardedKind {
    /// `clusters.cluster.karmada.io`
    Cluster,
    /// `propagationpolicies.policy.karmada.io`
    PropagationPolicy,
    /// `clusterpropagationpolicies.policy.karmada.io`
    ClusterPropagationPolicy,
    /// `overridepolicies.policy.karmada.io`
    OverridePolicy,
    /// `clusteroverridepolicies.policy.karmada.io`
    ClusterOverridePolicy,
    /// `clustertaintpolicies.policy.karmada.io`
    ClusterTaintPolicy,
    /// `federatedresourcequotas.policy.karmada.io`
    FederatedResourceQuota,
    /// `resourcebindings.work.karmada.io`
    ResourceBinding,
    /// `clusterresourcebindings.work.karmada.io`
    ClusterResourceBinding,
    /// `works.work.karmada.io`
    Work,
    /// `resourceinterpretercustomizations.config.karmada.io`. The resource interpreter checks the scripts of these
    /// objects.
    ResourceInterpreterCustomization,
    /// `resourceinterpreterwebhookconfigurations.config.karmada.io`
    ResourceInterpreterWebhookConfiguration,
}

impl GuardedKind {
    /// Returns the kind with this group and resource name, if the kind has admission rules.
    pub fn find(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            ("cluster.karmada.io", "clusters") => Some(Self::Cluster),
            ("policy.karmada.io", "propagationpolicies") => Some(Self::PropagationPolicy),
            ("policy.karmada.io", "clusterpropagationpolicies") => {
                Some(Self::ClusterPropagationPolicy)
            }
            ("policy.karmada.io", "overridepolicies") => Some(Self::OverridePolicy),
            ("policy.karmada.io", "clusteroverridepolicies") => Some(Self::ClusterOverridePolicy),
            ("policy.karmada.io", "clustertaintpolicies") => Some(Self::ClusterTaintPolicy),
            ("policy.karmada.io", "federatedresourcequotas") => Some(Self::FederatedResourceQuota),
            ("work.karmada.io", "resourcebindings") => Some(Self::ResourceBinding),
            ("work.karmada.io", "clusterresourcebindings") => Some(Self::ClusterResourceBinding),
            ("work.karmada.io", "works") => Some(Self::Work),
            ("config.karmada.io", "resourceinterpretercustomizations") => {
                Some(Self::ResourceInterpreterCustomization)
            }
            ("config.karmada.io", "resourceinterpreterwebhookconfigurations") => {
                Some(Self::ResourceInterpreterWebhookConfiguration)
            }
            _ => None,
        }
    }

    /// Returns the label for the permanent id of an object of this kind, or `None` if objects of this kind have no
    /// permanent id.
    pub fn permanent_id_label(self) -> Option<&'static str> {
        match self {
            Self::Cluster
            | Self::OverridePolicy
            | Self::ClusterOverridePolicy
            | Self::ClusterTaintPolicy
            | Self::FederatedResourceQuota
            | Self::ResourceInterpreterCustomization
            | Self::ResourceInterpreterWebhookConfiguration => None,
            Self::PropagationPolicy => Some(well_known::PROPAGATION_POLICY_PERMANENT_ID),
            Self::ClusterPropagationPolicy => {
                Some(well_known::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID)
            }
            Self::ResourceBinding => Some(well_known::RESOURCE_BINDING_PERMANENT_ID),
            Self::ClusterResourceBinding => Some(well_known::CLUSTER_RESOURCE_BINDING_PERMANENT_ID),
            Self::Work => Some(well_known::WORK_PERMANENT_ID),
        }
    }

    /// Returns the finalizer that admission adds to a propagation policy, or `None` for other kinds. Controllers add the finalizers
    /// of other kinds.
    pub fn policy_finalizer(self) -> Option<&'static str> {
        match self {
            Self::PropagationPolicy => Some(well_known::PROPAGATION_POLICY_FINALIZER),
            Self::ClusterPropagationPolicy => {
                Some(well_known::CLUSTER_PROPAGATION_POLICY_FINALIZER)
            }
            Self::Cluster
            | Self::OverridePolicy
            | Self::ClusterOverridePolicy
            | Self::ClusterTaintPolicy
            | Self::FederatedResourceQuota
            | Self::ResourceBinding
            | Self::ClusterResourceBinding
            | Self::Work
            | Self::ResourceInterpreterCustomization
            | Self::ResourceInterpreterWebhookConfiguration => None,
        }
    }
}

/// The inputs of a mutation that are not part of the object.
pub trait Environment {
    /// Returns a new permanent id, a version 4 UUID.
    fn new_id(&mut self) -> String;
    /// Returns the current time in RFC 3339 with whole seconds.
    fn now(&mut self) -> String;
}

/// An environment with random ids and the system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn new_id(&mut self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn now(&mut self) -> String {
        berth_apimachinery::timestamp::now().to_string()
    }
}

/// Removes the empty values that Karmada drops when it decodes and encodes an object. `typed` is the decoded object.
/// Unknown fields stay.
pub fn drop_empty_values(object: &mut Value, typed: &impl Serialize) {
    if let Ok(typed) = serde_json::to_value(typed) {
        go_zero::remove(object, &typed);
    }
}

/// Runs the mutating phase, which completes and normalizes the object. Malformed fields stay unchanged. The schema
/// check rejects these fields afterwards.
///
/// ```
/// use berth_api::admission::{GuardedKind, Operation, SystemEnvironment, mutate, validate};
/// use serde_json::json;
///
/// let kind = GuardedKind::PropagationPolicy;
/// let mut policy = json!({
///     "apiVersion": "policy.karmada.io/v1alpha1",
///     "kind": "PropagationPolicy",
///     "metadata": { "name": "nginx", "namespace": "default" },
///     "spec": {
///         "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment" }],
///         "placement": { "spreadConstraints": [{ "maxGroups": 2 }] },
///     },
/// });
/// mutate(kind, Operation::Create, &mut policy, &mut SystemEnvironment);
/// assert_eq!(policy["spec"]["resourceSelectors"][0]["namespace"], "default");
/// assert_eq!(policy["spec"]["placement"]["spreadConstraints"][0]["spreadByField"], "cluster");
/// assert!(validate(kind, Operation::Create, None, &policy).is_ok());
///
/// policy["spec"]["placement"]["spreadConstraints"][0]["minGroups"] = json!(3);
/// let errors = validate(kind, Operation::Create, None, &policy).unwrap_err();
/// assert_eq!(errors.len(), 1);
/// ```
pub fn mutate(
    kind: GuardedKind,
    operation: Operation,
    object: &mut Value,
    environment: &mut dyn Environment,
) {
    if bounds::has_too_many_items(kind, object) {
        return;
    }
    match kind {
        GuardedKind::Cluster => cluster_defaults::mutate(operation, object, environment),
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy => {
            policy_defaults::mutate(kind, operation, object, environment);
        }
        GuardedKind::ResourceBinding | GuardedKind::ClusterResourceBinding => {
            binding::mutate(kind, operation, object, environment);
        }
        GuardedKind::OverridePolicy | GuardedKind::ClusterOverridePolicy => {
            override_rules::mutate(kind, object);
        }
        GuardedKind::Work => work::mutate(object, environment),
        GuardedKind::ClusterTaintPolicy
        | GuardedKind::FederatedResourceQuota
        | GuardedKind::ResourceInterpreterCustomization
        | GuardedKind::ResourceInterpreterWebhookConfiguration => {}
    }
}

/// Runs the validating phase. `old` is the stored object of an update.
///
/// # Errors
/// The rejected fields with their reasons, at most [`MAX_ERRORS`] and a last error with the number of the others.
pub fn validate(
    kind: GuardedKind,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Vec<FieldError>> {
    let beyond = bounds::check(kind, old, object);
    if beyond.is_empty() {
        limited(check(kind, operation, old, object))
    } else {
        limited(beyond)
    }
}

/// Checks a stored object, which may be older than the rules that Karmada lacks. Only Karmada's own rules apply.
///
/// # Errors
/// As [`validate`].
pub fn validate_stored(kind: GuardedKind, object: &Value) -> Result<(), Vec<FieldError>> {
    limited(check(kind, Operation::Create, Some(object), object))
}

/// Maximum number of errors in a response. A response with an error for each of many fields would be larger than the
/// object, and kubectl would print all of them.
pub const MAX_ERRORS: usize = 100;

fn limited(mut errors: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if errors.is_empty() {
        return Ok(());
    }
    let others = errors.len().saturating_sub(MAX_ERRORS);
    errors.truncate(MAX_ERRORS);
    if others > 0 {
        errors.push(FieldError {
            field: "spec".to_owned(),
            reason: Reason::Invalid,
            message: format!("{others} more errors are omitted"),
        });
    }
    Err(errors)
}

fn check(
    kind: GuardedKind,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
) -> Vec<FieldError> {
    match kind {
        GuardedKind::Cluster => cluster_rules::check(operation, old, object),
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy => {
            policy_rules::check(kind, operation, old, object)
        }
        GuardedKind::ResourceBinding => binding::check(object),
        GuardedKind::OverridePolicy | GuardedKind::ClusterOverridePolicy => {
            override_rules::check(kind, old, object)
        }
        GuardedKind::ClusterTaintPolicy => taint_policy_rules::check(object),
        GuardedKind::FederatedResourceQuota => quota_rules::check(object),
        GuardedKind::ResourceInterpreterWebhookConfiguration => {
            interpreter_webhook_rules::check(object)
        }
        GuardedKind::ClusterResourceBinding
        | GuardedKind::Work
        | GuardedKind::ResourceInterpreterCustomization => Vec::new(),
    }
}
