//! ResourceBinding and ClusterResourceBinding: one resource, where it should go, and how that went.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::ResourceList;
use crate::go_zero::{self, is_go_zero};
use crate::open_enum::open_enum;
use crate::placement::Placement;
use crate::policy::{ConflictResolution, FailoverBehavior, PurgeMode, SuspendClusters};
use crate::root_kind::root_kind;
use crate::toleration::Toleration;

root_kind! {
    /// The binding of a namespaced resource to member clusters.
    ResourceBinding {
        group: "work.karmada.io", version: "v1alpha2", plural: "resourcebindings",
        scope: NamespaceResourceScope, spec: BindingSpec, status: BindingStatus,
    }
}

root_kind! {
    /// The binding of a cluster-scoped resource to member clusters.
    ClusterResourceBinding {
        group: "work.karmada.io", version: "v1alpha2", plural: "clusterresourcebindings",
        scope: ClusterResourceScope, spec: BindingSpec, status: BindingStatus,
    }
}

/// The spec of both binding kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The resource template.
    pub resource: ObjectReference,
    /// Whether ConfigMaps, Secrets and the like that the resource names follow it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// What each replica needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// The total number of replicas wanted.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("x-no-default" = true))]
    pub replicas: i32,
    /// The parts of a workload that has several pod templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The clusters that the scheduler chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The placement of the policy; absent on bindings that follow another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Clusters that the resource is leaving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// The bindings that this one follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// The scheduler in charge.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_name: Option<String>,
    /// What happens when an application or a cluster fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// What happens when the resource exists in a member already.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Later than `status.lastScheduledTime`: schedule afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Stops scheduling or dispatching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Whether the resource stays in the members when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// The order among waiting bindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingPriority>,
    /// The groups of inter-workload affinity (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

impl BindingSpec {
    /// Whether the resource is a workload: replicas, requirements or components are given.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || !self.components.is_empty()
    }

    /// Whether scheduling is suspended.
    pub fn scheduling_suspended(&self) -> bool {
        self.suspension
            .as_ref()
            .and_then(|suspension| suspension.scheduling)
            .unwrap_or(false)
    }

    /// The scheduler in charge; an empty name means the default one.
    pub fn scheduler(&self) -> &str {
        match self.scheduler_name.as_deref() {
            None | Some("") => crate::well_known::DEFAULT_SCHEDULER,
            Some(name) => name,
        }
    }

    /// The scheduling priority, 0 where none is given.
    pub fn priority(&self) -> i32 {
        self.schedule_priority
            .as_ref()
            .map_or(0, |priority| priority.priority.unwrap_or(0))
    }
}

/// Names the resource template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// For example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The UID.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub uid: Option<String>,
    /// The version of the template that the binding was made from.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub resource_version: Option<String>,
}

/// As events about the template point at it: at the object, not at the version that a binding was made from.
impl From<&ObjectReference> for k8s_openapi::api::core::v1::ObjectReference {
    fn from(template: &ObjectReference) -> Self {
        Self {
            api_version: Some(template.api_version.clone()),
            kind: Some(template.kind.clone()),
            namespace: template.namespace.clone(),
            name: Some(template.name.clone()),
            uid: template.uid.clone(),
            ..Self::default()
        }
    }
}

/// What each replica needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// The nodes that will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Resources for each replica.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// The namespace whose quota counts (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub namespace: Option<String>,
    /// The priority class (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub priority_class_name: Option<String>,
}

/// The nodes that will do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Required node affinity.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "go_zero::node_selector"
    )]
    #[schemars(with = "Option<NodeSelector>", extend("x-kubernetes-map-type" = "atomic"))]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Required node labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated node taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One pod template of a workload that has several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its name, unique in the binding.
    #[schemars(length(max = 32))]
    pub name: String,
    /// Its replicas.
    pub replicas: i32,
    /// What each replica needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// What each replica of a component needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// The nodes that will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Resources for each replica.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// The priority class (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub priority_class_name: Option<String>,
}

/// A cluster that the scheduler chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// Its name.
    pub name: String,
    /// The replicas it gets.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("x-no-default" = true))]
    pub replicas: i32,
    /// The replicas by component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// The replicas of a component in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetComponent {
    /// The component.
    pub name: String,
    /// Its replicas.
    pub replicas: i32,
}

/// A cluster that the resource is leaving.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster.
    pub from_cluster: String,
    /// What becomes of the old copy.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub purge_mode: Option<PurgeMode>,
    /// The replicas to be evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A word that says why.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// A sentence that says why.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Who asked for it.
    pub producer: String,
    /// Seconds to wait for the new copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// `true` keeps the old copy, `false` removes it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// State that is handed to the new copy as labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// When the task was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The clusters before the failover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

/// A binding that this one follows, and its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSnapshot {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// Stops scheduling or dispatching, as a binding says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Stops dispatching to all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Stops dispatching to some clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// Stops scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The order among waiting bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingPriority {
    /// The higher goes first.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
}

/// The groups of inter-workload affinity, as `key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// Members go to the same clusters.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub affinity_group: Option<String>,
    /// Members go to different clusters.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub anti_affinity_group: Option<String>,
}

/// How the placement went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// The generation that the scheduler has dealt with.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_observed_generation: Option<i64>,
    /// The affinity group in use, with `clusterAffinities`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_observing_affinity_name: Option<String>,
    /// When the scheduler last succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// `Scheduled` and `FullyApplied`.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::conditions"
    )]
    #[schemars(with = "Vec<Condition>")]
    pub conditions: Vec<Condition>,
    /// What the members report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// What a member reports of the resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// The member.
    pub cluster_name: String,
    /// The status of the resource there, as reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub status: Option<serde_json::Value>,
    /// Whether the resource was applied there.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub applied: Option<bool>,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub applied_message: Option<String>,
    /// Whether it is healthy there.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub health: Option<ResourceHealth>,
}

open_enum! {
    /// The health of a resource in a member.
    pub enum ResourceHealth {
        /// It works.
        Healthy = "Healthy",
        /// It does not work.
        Unhealthy = "Unhealthy",
        /// Nobody knows.
        Unknown = "Unknown",
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
