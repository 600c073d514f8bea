//! PropagationPolicy and ClusterPropagationPolicy: which resources go where.

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::placement::Placement;
use crate::root_kind::root_kind;
use crate::selector::LabelSelector;

root_kind! {
    /// Propagates resources of its own namespace to member clusters.
    PropagationPolicy {
        group: "policy.karmada.io", version: "v1alpha1", plural: "propagationpolicies",
        scope: NamespaceResourceScope, spec: PropagationSpec,
    }
}

root_kind! {
    /// Propagates cluster-scoped resources, and resources of any namespace, to member clusters.
    ClusterPropagationPolicy {
        group: "policy.karmada.io", version: "v1alpha1", plural: "clusterpropagationpolicies",
        scope: ClusterResourceScope, spec: PropagationSpec,
    }
}

/// The spec of both policy kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// The resources to propagate.
    #[schemars(length(min = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated, without effect: see `propagateDeps`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub association: bool,
    /// Whether ConfigMaps, Secrets and the like that a resource names follow it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// Which clusters, and how many replicas in each.
    #[serde(default)]
    #[schemars(extend("x-no-default" = true))]
    pub placement: Placement,
    /// The higher one wins where several policies select a resource; may be negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
    /// Whether this policy may take resources from another one.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Never"))]
    pub preemption: Option<Preemption>,
    /// Override policies that must exist before anything is propagated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// The scheduler that places the resources; cannot be changed later.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "default-scheduler"))]
    pub scheduler_name: Option<String>,
    /// What happens when an application or a cluster fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// What happens when the resource exists in a member already.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// `Lazy` delays a policy's changes until the resource itself is changed.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub activation_preference: Option<ActivationPreference>,
    /// Stops dispatching to members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether resources stay in the members when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Where the scheduling priority of the workloads comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
}

/// Selects resource templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// The group and version, for example `apps/v1`; compared exactly.
    pub api_version: String,
    /// The kind; compared exactly.
    pub kind: String,
    /// The namespace; empty means the policy's own, or any for a ClusterPropagationPolicy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name; where it is set the label selector does not count.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Over the labels of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

open_enum! {
    /// Whether a policy may take resources from another one.
    pub enum Preemption {
        /// It may, where its priority is higher.
        Always = "Always",
        /// It may not.
        Never = "Never",
    }
}

open_enum! {
    /// What happens when the resource exists in a member already.
    pub enum ConflictResolution {
        /// The member's resource is left alone and the conflict reported.
        Abort = "Abort",
        /// The member's resource is taken over.
        Overwrite = "Overwrite",
    }
}

open_enum! {
    /// When changes of a policy take effect.
    pub enum ActivationPreference {
        /// With the next change of the resource.
        Lazy = "Lazy",
    }
}

/// Stops dispatching, as a policy says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// Stops dispatching to all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Stops dispatching to some clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters to which dispatching stops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// Where the scheduling priority of workloads comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePriority {
    /// The kind of priority class.
    pub priority_class_source: PriorityClassSource,
    /// Its name.
    pub priority_class_name: String,
}

open_enum! {
    /// The kinds of priority class.
    pub enum PriorityClassSource {
        /// `scheduling.k8s.io/v1 PriorityClass` of the control plane.
        KubePriorityClass = "KubePriorityClass",
    }
}

/// What happens when an application or a cluster fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverBehavior {
    /// When the application fails; absent means nothing happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailover>,
    /// When the cluster fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailover>,
}

/// What happens when an application is unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailover {
    /// When it counts as failed.
    pub decision_conditions: DecisionConditions,
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Seconds to wait for the new copy before the old one goes; only with `Gracefully`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// State that is handed from the old copy to the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When an application counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds that an unhealthy application is tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// What happens when a cluster fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailover {
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Gracefully", "enum" = ["Directly", "Gracefully"]))]
    pub purge_mode: Option<PurgeMode>,
    /// State that is handed from the old copy to the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

open_enum! {
    /// What becomes of the old copy of an application that moves.
    pub enum PurgeMode {
        /// It goes before the new one comes.
        Directly = "Directly",
        /// It goes when the new one is healthy, or the grace period is over.
        Gracefully = "Gracefully",
        /// It stays until somebody acts.
        Never = "Never",
    }
}

/// State that is handed from the old copy of an application to the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservation {
    /// What to read, and the label to write it to.
    pub rules: Vec<StatePreservationRule>,
}

/// One value that is handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// The label that carries the value.
    pub alias_label_name: String,
    /// The JSONPath template of the value in the reported status, for example `{.replicas}`.
    pub json_path: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}
