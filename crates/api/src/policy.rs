//! PropagationPolicy and ClusterPropagationPolicy: the resources to propagate and their placement.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies public structs into functions"
)]

use std::ops::Deref;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field_schema;
use crate::go_zero::is_go_zero;
use crate::label_selector::LabelSelector;
use crate::open_enum::open_enum;
use crate::placement::Placement;

/// The spec of both policy kinds.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "PropagationPolicy",
    doc = "Propagates resources of its own namespace to member clusters.",
    namespaced,
    shortname = "pp",
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "CONFLICT-RESOLUTION",
        type_ = "string",
        json_path = ".spec.conflictResolution",
        description = "The reaction to a resource that already exists in a member cluster."
    ),
    printcolumn(
        name = "PRIORITY",
        type_ = "string",
        json_path = ".spec.priority",
        description = "The priority among policies that select the same resource."
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// The resources to propagate.
    #[schemars(length(min = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated and without effect: use `propagateDeps`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub association: bool,
    /// Also propagates ConfigMaps, Secrets and other objects that a resource references.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// The clusters, and the number of replicas in each.
    #[serde(default)]
    #[schemars(transform = field_schema::without_default)]
    pub placement: Placement,
    /// The priority among policies that select the same resource; may be negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
    /// Allows the policy to take over resources from policies of lower priority.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Never"))]
    pub preemption: Option<Preemption>,
    /// Override policies that must exist before the resources are propagated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// The name of the responsible scheduler; immutable.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "default-scheduler"))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("the schedulerName should not be updated"))]
    pub scheduler_name: Option<String>,
    /// The reaction to a failed application or cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// The reaction to a resource that already exists in a member cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// `Lazy` delays changes of the policy until the resource itself changes.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub activation_preference: Option<ActivationPreference>,
    /// Suspends dispatching to member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Keeps the resources in the member clusters when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// The source of the scheduling priority of the workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
}

/// The spec of both policy kinds.
// kube-derive needs one type for each kind.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterPropagationPolicy",
    doc = "Propagates cluster-scoped resources, and resources of any namespace, to member clusters.",
    shortname = "cpp",
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "CONFLICT-RESOLUTION",
        type_ = "string",
        json_path = ".spec.conflictResolution",
        description = "The reaction to a resource that already exists in a member cluster."
    ),
    printcolumn(
        name = "PRIORITY",
        type_ = "string",
        json_path = ".spec.priority",
        description = "The priority among policies that select the same resource."
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(transparent)]
pub struct ClusterPropagationSpec(pub PropagationSpec);

impl Deref for ClusterPropagationSpec {
    type Target = PropagationSpec;

    fn deref(&self) -> &PropagationSpec {
        &self.0
    }
}

/// A selector of resource templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// The API version, for example `apps/v1`; compared exactly.
    pub api_version: String,
    /// The kind; compared exactly.
    pub kind: String,
    /// The namespace; empty means the policy's own, or any for a ClusterPropagationPolicy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name; takes precedence over the label selector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The selector over the labels of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

open_enum! {
    /// The right of a policy to take over resources from other policies.
    pub enum Preemption {
        /// The policy takes over resources from policies of lower priority.
        Always = "Always",
        /// The policy never takes over resources.
        Never = "Never",
    }
}

open_enum! {
    /// The reaction to a resource that already exists in a member cluster.
    pub enum ConflictResolution {
        /// Leaves the existing resource unchanged and reports the conflict.
        Abort = "Abort",
        /// Takes over the existing resource.
        Overwrite = "Overwrite",
    }
}

open_enum! {
    /// The time at which changes of a policy take effect.
    pub enum ActivationPreference {
        /// The changes take effect when the resource changes next.
        Lazy = "Lazy",
    }
}

/// Suspends dispatching of the resources of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.dispatching) && self.dispatching && has(self.dispatchingOnClusters) && has(self.dispatchingOnClusters.clusterNames) && size(self.dispatchingOnClusters.clusterNames) > 0)")
    .message("dispatching cannot co-exist with dispatchingOnClusters.clusterNames"))]
pub struct Suspension {
    /// Suspends dispatching to all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Suspends dispatching to some clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// The clusters to which dispatching is suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// The names of the clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// The source of the scheduling priority of workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePriority {
    /// The kind of priority class.
    pub priority_class_source: PriorityClassSource,
    /// The name of the priority class.
    pub priority_class_name: String,
}

open_enum! {
    /// The kinds of priority class.
    pub enum PriorityClassSource {
        /// `scheduling.k8s.io/v1 PriorityClass` of the control plane.
        KubePriorityClass = "KubePriorityClass",
    }
}

/// The reaction to a failed application or cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverBehavior {
    /// The reaction to a failed application; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailover>,
    /// The reaction to a failed cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailover>,
}

/// The reaction to an unhealthy application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.gracePeriodSeconds) || !has(self.purgeMode) || self.purgeMode == 'Gracefully'")
    .message("gracePeriodSeconds only takes effect when purgeMode is Gracefully")
    .field_path(".gracePeriodSeconds"))]
pub struct ApplicationFailover {
    /// The conditions under which an application counts as failed.
    pub decision_conditions: DecisionConditions,
    /// The treatment of the application in its old cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Maximum seconds to wait for the replacement. Only used with `Gracefully`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-policy-only" = ["minimum"]))]
    pub grace_period_seconds: Option<i32>,
    /// State that the application keeps when it moves to another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// The conditions under which an application counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds for which an unhealthy application is tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 300, "x-policy-only" = ["minimum"]))]
    pub toleration_seconds: Option<i32>,
}

/// The reaction to a failed cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailover {
    /// The treatment of the application in its old cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Gracefully", "enum" = ["Directly", "Gracefully"]))]
    pub purge_mode: Option<PurgeMode>,
    /// State that the application keeps when it moves to another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

open_enum! {
    /// The treatment of an application in its old cluster during a failover.
    pub enum PurgeMode {
        /// Removes the application from the old cluster before it is created in a new cluster.
        Directly = "Directly",
        /// Removes the application from the old cluster when it is healthy in the new cluster, or when the grace period
        /// ends.
        Gracefully = "Gracefully",
        /// Keeps the application in the old cluster until a user removes it.
        Never = "Never",
    }
}

/// State of an application that is copied from the old cluster to the new cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservation {
    /// The values to read and the labels to write them to.
    pub rules: Vec<StatePreservationRule>,
}

/// A value that the application keeps.
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
    reason = "serde requires this signature"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}
