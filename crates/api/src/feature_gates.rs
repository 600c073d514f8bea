//! The feature gates of all Berth programs: Karmada's gates and Berth's own.

mod flag;

use serde::{Deserialize, Serialize};

pub use flag::{
    ControllerGates, FeatureGates, names, parse, parse_for_predictions, parse_stand_alone,
};

/// The feature gates that affect decisions. Each field is serialized under its name in `--feature-gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "gates are independent switches"
)]
pub struct EngineGates {
    /// CustomizedClusterResourceModeling: estimates use the resource models of clusters that report usable models.
    pub customized_cluster_resource_modeling: bool,
    /// MultiplePodTemplatesScheduling: if a workload with components must run in a single cluster, estimates count
    /// complete sets of components. The result then lists the replicas of each component, if there are several.
    pub multiple_pod_templates_scheduling: bool,
    /// WorkloadAffinity: the workloads of an affinity group are placed in the same clusters, and the workloads of an
    /// anti-affinity group in different clusters.
    pub workload_affinity: bool,
    /// SchedulingOvercommitProtection: recently placed workloads reduce the free capacity of clusters that do not
    /// report them yet.
    pub scheduling_overcommit_protection: bool,
    /// SpreadByAllFields (specific to Berth): spread constraints by zone, provider and label also apply to a placement
    /// with a constraint by cluster or region.
    pub spread_by_all_fields: bool,
    /// SpreadStaticWeights (specific to Berth): spread constraints also apply to a placement with static weights.
    pub spread_static_weights: bool,
    /// MinGroupsInDivision (specific to Berth): `minGroups` of the spread constraints counts the groups that get
    /// replicas, and not only the selected groups.
    pub min_groups_in_division: bool,
    /// NoScaleUpOnTaints (specific to Berth): a cluster with a taint that the placement does not tolerate keeps its
    /// replicas, and gets no further replicas.
    pub no_scale_up_on_taints: bool,
    /// EstimateGrownRequests (specific to Berth): replicas that still run with a smaller request count with the new
    /// request.
    pub estimate_grown_requests: bool,
    /// NodePoolEstimate (specific to Berth): estimates use the summary of a cluster's nodes, if `berth controllers` write
    /// it, and respect node selectors, node affinities and taints.
    pub node_pool_estimate: bool,
    /// DeviceClassEstimate (specific to Berth): estimates from the status of clusters, which contains no devices of
    /// DeviceClasses, ignore requests for such devices.
    pub device_class_estimate: bool,
    /// FollowMemberAPIs (specific to Berth): a resource leaves a cluster that no longer serves its kind.
    #[serde(rename = "FollowMemberAPIs")]
    pub follow_member_apis: bool,
}

impl EngineGates {
    /// Returns the defaults of a control plane without Karmada's scheduler. The gates that differ from
    /// [`Self::default`] change decisions of Karmada that contradict the documentation of the API.
    #[must_use]
    pub fn stand_alone() -> Self {
        Self {
            min_groups_in_division: true,
            no_scale_up_on_taints: true,
            estimate_grown_requests: true,
            device_class_estimate: true,
            follow_member_apis: true,
            ..Self::default()
        }
    }
}

impl Default for EngineGates {
    fn default() -> Self {
        Self {
            customized_cluster_resource_modeling: true,
            multiple_pod_templates_scheduling: false,
            workload_affinity: false,
            scheduling_overcommit_protection: false,
            spread_by_all_fields: false,
            spread_static_weights: false,
            min_groups_in_division: false,
            no_scale_up_on_taints: false,
            estimate_grown_requests: false,
            node_pool_estimate: true,
            device_class_estimate: false,
            follow_member_apis: false,
        }
    }
}
