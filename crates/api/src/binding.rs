//! The kinds ResourceBinding and ClusterResourceBinding. A binding contains a reference to a resource template, the
//! clusters that the scheduler chose, and the status of the resource in these clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use berth_apimachinery::timestamp::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::ResourceList;
use crate::field_schema;
use crate::go_zero::{self, is_go_zero};
use crate::open_enum::open_enum;
use crate::placement::Placement;
use crate::policy::{ConflictResolution, FailoverBehavior, PurgeMode, SuspendClusters};
use crate::toleration::Toleration;

/// The spec of both binding kinds.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ResourceBinding",
    doc = "The binding of a namespaced resource to member clusters.",
    namespaced,
    shortname = "rb",
    category = "karmada-io",
    status = "BindingStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "SCHEDULED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Scheduled")].status"#
    ),
    printcolumn(
        name = "FULLYAPPLIED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="FullyApplied")].status"#
    ),
    printcolumn(
        name = "HEALTHY",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Healthy")].status"#
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The resource template.
    pub resource: ObjectReference,
    /// Also propagates ConfigMaps, Secrets and other objects that the resource references.
    #[serde(default, skip_serializing_if = "is_false")]
    pub propagate_deps: bool,
    /// The requirements of each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// The desired total number of replicas.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// The components of a workload with several pod templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The clusters that the scheduler chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The placement of the policy; absent on bindings of dependencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = field_schema::without_policy_constraints)]
    pub placement: Option<Placement>,
    /// Clusters that the resource is being evicted from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// The bindings that depend on this binding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// The name of the responsible scheduler.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_name: Option<String>,
    /// The reaction to a failed application or cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = field_schema::without_policy_constraints)]
    pub failover: Option<FailoverBehavior>,
    /// The reaction to a resource that already exists in a member cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Requests a rescheduling if this time is later than `status.lastScheduledTime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Suspends scheduling or dispatching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Keeps the resource in the member clusters when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// The priority among bindings that wait for scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingPriority>,
    /// The groups of inter-workload affinity (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

/// The spec of both binding kinds.
// kube-derive needs one type for each kind.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ClusterResourceBinding",
    doc = "The binding of a cluster-scoped resource to member clusters.",
    shortname = "crb",
    category = "karmada-io",
    status = "BindingStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "SCHEDULED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Scheduled")].status"#
    ),
    printcolumn(
        name = "FULLYAPPLIED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="FullyApplied")].status"#
    ),
    printcolumn(
        name = "HEALTHY",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Healthy")].status"#
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(transparent)]
pub struct ClusterBindingSpec(pub BindingSpec);

impl Deref for ClusterBindingSpec {
    type Target = BindingSpec;

    fn deref(&self) -> &BindingSpec {
        &self.0
    }
}

impl BindingSpec {
    /// Reports whether the resource is a workload. A workload has replicas, replica requirements or components.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || !self.components.is_empty()
    }

    /// Reports whether scheduling is suspended.
    pub fn scheduling_suspended(&self) -> bool {
        self.suspension
            .as_ref()
            .and_then(|suspension| suspension.scheduling)
            .unwrap_or(false)
    }

    /// Returns the name of the responsible scheduler. An empty or missing name stands for Karmada's default scheduler.
    pub fn scheduler(&self) -> &str {
        match self.scheduler_name.as_deref() {
            None | Some("") => crate::well_known::DEFAULT_SCHEDULER,
            Some(name) => name,
        }
    }

    /// Returns the target clusters: the clusters that the scheduler selected, then the clusters of the bindings in
    /// `requiredBy`.
    pub fn targets(&self) -> Vec<TargetCluster> {
        let mut targets: Vec<TargetCluster> = self.clusters.clone();
        let mut known: BTreeSet<String> = targets.iter().map(|t| t.name.clone()).collect();
        for target in self.required_by.iter().flat_map(|parent| &parent.clusters) {
            if known.insert(target.name.clone()) {
                targets.push(target.clone());
            }
        }
        targets
    }

    /// Returns the clusters that may have a Work: the targets, and the clusters of eviction tasks that do not purge
    /// directly.
    pub fn expected_clusters(&self) -> BTreeSet<String> {
        let leaving = self
            .graceful_eviction_tasks
            .iter()
            .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
            .map(|task| task.from_cluster.clone());
        let targets = self.targets().into_iter().map(|target| target.name);
        targets.chain(leaving).collect()
    }

    /// Returns the scheduling priority, or 0 if the binding has no priority.
    pub fn priority(&self) -> i32 {
        self.schedule_priority
            .as_ref()
            .map_or(0, |priority| priority.priority.unwrap_or(0))
    }
}

/// A reference to the resource template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The API version, for example `apps/v1`.
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
    /// The resource version of the template that the binding was created from.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub resource_version: Option<String>,
}

/// Converts the reference to the type that events use. The resource version is omitted, because an event is about an
/// object in all its versions.
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

/// The requirements of each replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// The nodes that a replica may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resource requests of each replica.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// The namespace whose ResourceQuota applies (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub namespace: Option<String>,
    /// The priority class of the pods (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub priority_class_name: Option<String>,
}

/// The nodes that a replica may run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Required node affinity.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "go_zero::node_selector"
    )]
    #[schemars(with = "Option<NodeSelector>", transform = field_schema::atomic_node_selector)]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Required node labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated node taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// A component of a workload, with its own pod template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// The name, unique in the binding.
    #[schemars(length(max = 32))]
    pub name: String,
    /// The number of replicas.
    pub replicas: i32,
    /// The requirements of each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// The requirements of each replica of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// The nodes that a replica may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resource requests of each replica.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_request: ResourceList,
    /// The priority class of the pods (gate ResourceQuotaEstimate).
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub priority_class_name: Option<String>,
}

/// A cluster that the scheduler chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// The name of the cluster.
    pub name: String,
    /// The number of replicas assigned to the cluster.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// The replicas by component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// The replicas of a component in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetComponent {
    /// The name of the component.
    pub name: String,
    /// The number of replicas.
    pub replicas: i32,
}

/// The eviction of the resource from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster.
    pub from_cluster: String,
    /// The treatment of the resource in the cluster from which it is evicted.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub purge_mode: Option<PurgeMode>,
    /// The number of replicas to evict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The reason in one CamelCase word.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The controller that created the task.
    pub producer: String,
    /// Maximum seconds to wait for the replacement in other clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Keeps the resource in the cluster if true, or removes it at once if false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// State from the old cluster. The replacement gets this state as labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// The time at which the task was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The clusters before the failover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

/// A dependent binding, with its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSnapshot {
    /// The namespace of the binding.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub namespace: Option<String>,
    /// The name of the binding.
    pub name: String,
    /// The clusters of the binding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// Suspends scheduling or dispatching of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Suspends dispatching to all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Suspends dispatching to some clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// Suspends scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The priority among bindings that wait for scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingPriority {
    /// The priority. The scheduler takes bindings with a higher priority first.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
}

/// The groups of inter-workload affinity, as `key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// Workloads of the same group go to the same clusters.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub affinity_group: Option<String>,
    /// Workloads of the same group go to different clusters.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub anti_affinity_group: Option<String>,
}

/// The result of scheduling, and the status in the member clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// The generation of the binding at the last scheduling attempt.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_observed_generation: Option<i64>,
    /// The affinity group in use, if the placement has `clusterAffinities`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub scheduler_observing_affinity_name: Option<String>,
    /// The time of the last successful scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// The conditions `Scheduled` and `FullyApplied`.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "go_zero::conditions"
    )]
    #[schemars(schema_with = "field_schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The status that each member cluster reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// The status that a member cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// The name of the member cluster.
    pub cluster_name: String,
    /// The status of the resource in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "field_schema::any_object")]
    pub status: Option<serde_json::Value>,
    /// The resource was applied to the cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub applied: Option<bool>,
    /// The reason why the resource was not applied.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub applied_message: Option<String>,
    /// The health of the resource in the cluster.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub health: Option<ResourceHealth>,
}

open_enum! {
    /// The health of a resource in a member cluster.
    pub enum ResourceHealth {
        /// The resource works.
        Healthy = "Healthy",
        /// The resource does not work.
        Unhealthy = "Unhealthy",
        /// The health cannot be determined.
        Unknown = "Unknown",
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Returns the clusters in a value of the annotation
/// [`EVICTED_FROM`](crate::well_known::EVICTED_FROM).
pub fn clusters_evicted_from(annotation: &str) -> impl Iterator<Item = &str> {
    let names = annotation.split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

/// Returns the time for `spec.rescheduleTriggeredAt` with which a scheduler decides afresh about a binding. The scheduler
/// ignores a time that is not later than its last decision, and both times have whole seconds.
pub fn reschedule_trigger(last_scheduled: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let after = last_scheduled.and_then(|time| time.checked_add(Duration::from_secs(1)).ok());
    let now = whole_seconds(now);
    after.map_or(now, |after| after.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_of_evictions_lists_clusters() {
        let clusters = |text| clusters_evicted_from(text).collect::<Vec<_>>();
        assert_eq!(clusters(""), [""; 0]);
        assert_eq!(clusters("m1, m2,,m3"), ["m1", "m2", "m3"]);
    }

    #[test]
    fn a_trigger_is_later_than_the_last_decision() {
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let now = at("2026-05-01T10:00:00.7Z");
        for (decided, expected) in [
            (None, "2026-05-01T10:00:00Z"),
            (Some("2026-05-01T09:59:59Z"), "2026-05-01T10:00:00Z"),
            (Some("2026-05-01T10:00:00Z"), "2026-05-01T10:00:01Z"),
        ] {
            assert_eq!(reschedule_trigger(decided.map(at), now), at(expected));
        }
    }
}
