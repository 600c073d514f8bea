//! The application of a change to a Cluster object or to a binding.

use berth_api::Cluster;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::cluster::{ApiEnablement, ApiResource};
use berth_api::node_pools::NodePools;
use berth_api::placement::{
    ClusterAffinity, Placement, SpreadConstraint, SpreadField, StaticClusterWeight,
};
use berth_api::quantity::QuantityText;
use berth_api::toleration::Toleration;
use berth_engine::ResourceRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::Change;

/// The key of the taint that `berth cordon` adds to a cluster.
const CORDON: &str = berth_api::well_known::UNSCHEDULABLE;

impl Change {
    /// Applies the change to a Cluster object. Has no effect if the change modifies the binding.
    pub(crate) fn apply_to_cluster(&self, cluster: &mut Cluster, spec: &BindingSpec) {
        match self {
            Self::Uncordon { .. } => cluster.spec.taints.retain(|taint| taint.key != CORDON),
            Self::SetLabel { key, value, .. } => {
                let labels = cluster.metadata.labels.get_or_insert_default();
                labels.insert(key.clone(), value.clone());
            }
            Self::RemoveLabel { key, .. } => {
                if let Some(labels) = &mut cluster.metadata.labels {
                    labels.remove(key);
                }
            }
            Self::SetField { field, value, .. } => match field.as_str() {
                "provider" => cluster.spec.provider = Some(value.clone()),
                "region" => cluster.spec.region = Some(value.clone()),
                _ => cluster.spec.zones.push(value.clone()),
            },
            Self::RemoveField { field, value, .. } => match field.as_str() {
                "provider" => cluster.spec.provider = None,
                "region" => cluster.spec.region = None,
                _ => cluster.spec.zones.retain(|zone| zone != value),
            },
            Self::RemoveTaint { taint, .. } => cluster.spec.taints.retain(|other| {
                other.key != taint.key
                    || other.effect != taint.effect
                    || other.value.as_deref().unwrap_or_default() != taint.value
            }),
            Self::InstallApi {
                api_version,
                api_kind,
                ..
            } => {
                let status = cluster.status.get_or_insert_default();
                status.api_enablements.push(ApiEnablement {
                    group_version: api_version.clone(),
                    resources: vec![ApiResource {
                        name: String::new(),
                        kind: api_kind.clone(),
                    }],
                });
            }
            Self::RaiseCapacity { to, .. } | Self::RaiseNodeCapacity { to, .. } => {
                set_free_capacity(cluster, spec, *to);
            }
            _ => {}
        }
    }

    /// Applies the change to a binding. Has no effect if the change modifies a cluster.
    pub(crate) fn apply_to_binding(&self, spec: &mut BindingSpec, status: &mut BindingStatus) {
        match self {
            Self::Reschedule => {
                status.last_scheduled_time = Some(Time(Timestamp::UNIX_EPOCH));
                spec.reschedule_triggered_at = Some(Time(Timestamp::MAX));
            }
            Self::ScaleReplicas { to, .. } => {
                spec.replicas = i32::try_from(*to).unwrap_or(i32::MAX);
            }
            Self::EndEviction { cluster } => spec
                .graceful_eviction_tasks
                .retain(|task| task.from_cluster != *cluster),
            _ => self.apply_to_placement(spec),
        }
    }

    fn apply_to_placement(&self, spec: &mut BindingSpec) {
        let Some(placement) = &mut spec.placement else {
            return;
        };
        match self {
            Self::Tolerate { taint } => placement.cluster_tolerations.push(Toleration {
                key: Some(taint.key.clone()),
                operator: Some("Equal".to_owned()),
                value: Some(taint.value.clone()),
                effect: Some(taint.effect.clone()),
                toleration_seconds: None,
            }),
            Self::AddClusterName { cluster, affinity } => {
                if let Some(found) = affinity_named(placement, affinity.as_deref()) {
                    found.cluster_names.push(cluster.clone());
                }
            }
            Self::DropExclude { cluster, affinity } => {
                if let Some(found) = affinity_named(placement, affinity.as_deref()) {
                    found.exclude_clusters.retain(|name| name != cluster);
                }
            }
            Self::RaiseMaxGroups { by, to, .. } => {
                let constraints = &mut placement.spread_constraints;
                match constraints.iter_mut().rev().find(|c| property(c) == *by) {
                    Some(constraint) => constraint.max_groups = *to,
                    None => constraints.push(SpreadConstraint {
                        spread_by_field: Some(SpreadField::Cluster),
                        spread_by_label: None,
                        max_groups: *to,
                        min_groups: 1,
                    }),
                }
            }
            Self::LowerMinGroups { by, to, .. } => {
                let mut constraints = placement.spread_constraints.iter_mut().rev();
                if let Some(constraint) = constraints.find(|c| property(c) == *by) {
                    constraint.min_groups = *to;
                }
            }
            Self::SetWeight { cluster, weight } => {
                if let Some(preference) = placement
                    .replica_scheduling
                    .as_mut()
                    .and_then(|scheduling| scheduling.weight_preference.as_mut())
                {
                    preference.static_weight_list.push(StaticClusterWeight {
                        target_cluster: ClusterAffinity {
                            cluster_names: vec![cluster.clone()],
                            ..ClusterAffinity::default()
                        },
                        weight: *weight,
                    });
                }
            }
            _ => {}
        }
    }
}

/// Sets the reported free capacity of a cluster so that exactly `replicas` further replicas of the workload fit.
fn set_free_capacity(cluster: &mut Cluster, spec: &BindingSpec, replicas: i64) {
    // If node pools or resource models were present, estimates would use them instead of the summary.
    NodePools::remove(cluster);
    let status = cluster.status.get_or_insert_default();
    let summary = status.resource_summary.get_or_insert_default();
    summary.allocatable_modelings.clear();
    let mut set = |resource: &str, amount: String| {
        summary.allocated.remove(resource);
        summary.allocating.remove(resource);
        let resource = resource.to_owned();
        summary.allocatable.insert(resource, QuantityText(amount));
    };
    set("pods", replicas.to_string());
    let requested = spec.replica_requirements.as_ref();
    let request =
        requested.and_then(|required| ResourceRequest::new(&required.resource_request).ok());
    for requested in request.iter().flat_map(ResourceRequest::amounts) {
        let amount = requested.units.saturating_mul(replicas);
        if requested.resource == "cpu" {
            set("cpu", format!("{amount}m"));
        } else if requested.resource != "pods" {
            set(&requested.resource, amount.to_string());
        }
    }
}

/// Returns the primary affinity of the affinity term with this name. Returns `clusterAffinity` if `name` is `None`.
fn affinity_named<'a>(
    placement: &'a mut Placement,
    name: Option<&str>,
) -> Option<&'a mut ClusterAffinity> {
    match name {
        None => placement.cluster_affinity.as_mut(),
        Some(name) => placement
            .cluster_affinities
            .iter_mut()
            .find(|term| term.affinity_name == name)
            .map(|term| &mut term.affinity),
    }
}

/// Returns the property by which a constraint groups clusters, in the notation of explanations.
fn property(constraint: &SpreadConstraint) -> String {
    match (&constraint.spread_by_field, &constraint.spread_by_label) {
        (Some(field), _) if !field.as_str().is_empty() => field.as_str().to_owned(),
        (_, Some(key)) => format!("label {key}"),
        _ => String::new(),
    }
}
