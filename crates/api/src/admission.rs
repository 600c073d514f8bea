//! What Karmada's webhooks and registry strategies do to an object before it is stored, as pure functions.
//!
//! Two phases, as in an API server: [`mutate`] fills in ids, finalizers and defaults before the schema is
//! checked, [`validate`] refuses afterwards. Both work on JSON, so that fields which this version does not
//! know stay what they are. They must not know who calls them, what time it is or how ids are made: that
//! comes through [`Surroundings`]. Bounds and enums are the schema's work and are not repeated here.

mod affinity_rules;
mod binding;
mod cluster_defaults;
mod cluster_rules;
mod deletion;
mod failover_rules;
mod field_error;
mod metadata;
mod override_rules;
mod placement_rules;
mod policy_defaults;
mod policy_rules;
mod resource_models;
mod taint_policy_rules;
#[cfg(test)]
mod tests;
mod work;

pub use deletion::{DeletionProtected, check_deletion};
pub use field_error::{FieldError, Reason};
pub use policy_defaults::complete_policy;

use serde::Serialize;
use serde_json::Value;

use crate::{go_zero, well_known};

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces a stored one.
    Update,
}

/// The kinds that have rules beyond their schema.
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
    /// `resourcebindings.work.karmada.io`
    ResourceBinding,
    /// `clusterresourcebindings.work.karmada.io`
    ClusterResourceBinding,
    /// `works.work.karmada.io`
    Work,
}

impl GuardedKind {
    /// The kind that is served as this resource of this group, where it has rules.
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
            ("work.karmada.io", "resourcebindings") => Some(Self::ResourceBinding),
            ("work.karmada.io", "clusterresourcebindings") => Some(Self::ClusterResourceBinding),
            ("work.karmada.io", "works") => Some(Self::Work),
            _ => None,
        }
    }

    /// The label that carries the object's own permanent id; Clusters, override and taint policies have none.
    pub fn permanent_id_label(self) -> Option<&'static str> {
        match self {
            Self::Cluster
            | Self::OverridePolicy
            | Self::ClusterOverridePolicy
            | Self::ClusterTaintPolicy => None,
            Self::PropagationPolicy => Some(well_known::PROPAGATION_POLICY_PERMANENT_ID),
            Self::ClusterPropagationPolicy => {
                Some(well_known::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID)
            }
            Self::ResourceBinding => Some(well_known::RESOURCE_BINDING_PERMANENT_ID),
            Self::ClusterResourceBinding => Some(well_known::CLUSTER_RESOURCE_BINDING_PERMANENT_ID),
            Self::Work => Some(well_known::WORK_PERMANENT_ID),
        }
    }

    /// The finalizer that policies are given; the other kinds get theirs from their controllers.
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
            | Self::ResourceBinding
            | Self::ClusterResourceBinding
            | Self::Work => None,
        }
    }
}

/// What the outside world contributes to a mutation.
pub trait Surroundings {
    /// A new permanent id: a version 4 UUID.
    fn new_id(&mut self) -> String;
    /// The time, in RFC 3339 with seconds.
    fn now(&mut self) -> String;
}

/// The real surroundings: random ids and the system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSurroundings;

impl Surroundings for LiveSurroundings {
    fn new_id(&mut self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn now(&mut self) -> String {
        jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string()
    }
}

/// Removes from an object the empty values that Karmada, which decodes and encodes it, would not write again; `typed` is
/// the same object, decoded. Fields that this version does not know stay.
pub fn drop_empty_values(object: &mut Value, typed: &impl Serialize) {
    if let Ok(typed) = serde_json::to_value(typed) {
        go_zero::remove(object, &typed);
    }
}

/// The mutating phase: fills in what is missing. Objects that do not have the shape of their kind are left
/// as they are, for the schema to refuse.
pub fn mutate(
    kind: GuardedKind,
    operation: Operation,
    object: &mut Value,
    surroundings: &mut dyn Surroundings,
) {
    match kind {
        GuardedKind::Cluster => cluster_defaults::mutate(operation, object, surroundings),
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy => {
            policy_defaults::mutate(kind, operation, object, surroundings);
        }
        GuardedKind::ResourceBinding | GuardedKind::ClusterResourceBinding => {
            binding::mutate(kind, operation, object, surroundings);
        }
        GuardedKind::OverridePolicy | GuardedKind::ClusterOverridePolicy => {
            override_rules::mutate(kind, object);
        }
        GuardedKind::Work => work::mutate(object, surroundings),
        GuardedKind::ClusterTaintPolicy => {}
    }
}

/// The validating phase.
///
/// # Errors
/// Every field that is refused, each with its reason.
pub fn validate(
    kind: GuardedKind,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
) -> Result<(), Vec<FieldError>> {
    let errors = match kind {
        GuardedKind::Cluster => cluster_rules::check(operation, old, object),
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy => {
            policy_rules::check(kind, operation, old, object)
        }
        GuardedKind::ResourceBinding => binding::check(object),
        GuardedKind::OverridePolicy | GuardedKind::ClusterOverridePolicy => {
            override_rules::check(kind, object)
        }
        GuardedKind::ClusterTaintPolicy => taint_policy_rules::check(object),
        GuardedKind::ClusterResourceBinding | GuardedKind::Work => Vec::new(),
    };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}
