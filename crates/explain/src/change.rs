//! Single changes of a cluster, a placement or a workload, and their application to the objects.

use std::fmt;

use berth_api::Cluster;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::cluster::{ApiEnablement, ApiResource};
use berth_api::placement::{ClusterAffinity, SpreadConstraint, SpreadField, StaticClusterWeight};
use berth_api::quantity::QuantityText;
use berth_api::toleration::Toleration;
use berth_core::ResourceRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The key of the taint that `berth cordon` adds to a cluster.
const CORDON: &str = berth_api::well_known::UNSCHEDULABLE;

/// A taint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaintRef {
    /// The key of the taint.
    pub key: String,
    /// The value, empty if the taint has no value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect.
    pub effect: String,
}

impl fmt::Display for TaintRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect)
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect)
        }
    }
}

/// A single change that can alter a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Change {
    /// Removes the taint of `berth cordon`.
    Uncordon {
        /// The name of the cluster.
        cluster: String,
    },
    /// Sets a label of a cluster.
    SetLabel {
        /// The name of the cluster.
        cluster: String,
        /// The key of the label.
        key: String,
        /// The value of the label.
        value: String,
    },
    /// Removes a label of a cluster.
    RemoveLabel {
        /// The name of the cluster.
        cluster: String,
        /// The key of the label.
        key: String,
    },
    /// Sets the provider or region of a cluster, or adds a zone.
    SetField {
        /// The name of the cluster.
        cluster: String,
        /// The field: `provider`, `region` or `zone`.
        field: String,
        /// The new value.
        value: String,
    },
    /// Removes the provider or region of a cluster, or one of its zones.
    RemoveField {
        /// The name of the cluster.
        cluster: String,
        /// The field: `provider`, `region` or `zone`.
        field: String,
        /// The present value.
        value: String,
    },
    /// Removes a taint of a cluster.
    RemoveTaint {
        /// The name of the cluster.
        cluster: String,
        /// The taint.
        taint: TaintRef,
    },
    /// Adds a toleration to the placement.
    Tolerate {
        /// The taint.
        taint: TaintRef,
    },
    /// Adds a cluster to `clusterNames` of an affinity.
    AddClusterName {
        /// The name of the cluster.
        cluster: String,
        /// The name of the affinity term. Absent if the affinity is `clusterAffinity`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        affinity: Option<String>,
    },
    /// Removes a cluster from `exclude` of an affinity.
    DropExclude {
        /// The name of the cluster.
        cluster: String,
        /// The name of the affinity term. Absent if the affinity is `clusterAffinity`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        affinity: Option<String>,
    },
    /// Raises the maximum of a spread constraint. If `from` is 0, adds the constraint.
    RaiseMaxGroups {
        /// The property by which the constraint groups clusters.
        by: String,
        /// The present maximum, or 0 if the constraint does not exist.
        from: i64,
        /// The new maximum.
        to: i64,
    },
    /// Lowers the minimum of a spread constraint.
    LowerMinGroups {
        /// The property by which the constraint groups clusters.
        by: String,
        /// The present minimum.
        from: i64,
        /// The new minimum.
        to: i64,
    },
    /// Ends the graceful eviction from a cluster.
    EndEviction {
        /// The name of the cluster.
        cluster: String,
    },
    /// Adds a static weight for a cluster.
    SetWeight {
        /// The name of the cluster.
        cluster: String,
        /// The weight of the cluster.
        weight: i64,
    },
    /// Requests that all replicas are divided again.
    Reschedule,
    /// Changes the replicas of the workload.
    ScaleReplicas {
        /// The present number of replicas.
        from: i64,
        /// The new number of replicas.
        to: i64,
    },
    /// Installs an API in a cluster.
    InstallApi {
        /// The name of the cluster.
        cluster: String,
        /// The group and version.
        api_version: String,
        /// The kind.
        api_kind: String,
    },
    /// Raises the free capacity of a cluster, for example by more nodes or by fewer other workloads.
    RaiseRoom {
        /// The name of the cluster.
        cluster: String,
        /// The present free capacity, as a number of replicas of the workload.
        from: i64,
        /// The new free capacity, as a number of replicas of the workload.
        to: i64,
    },
}

impl Change {
    /// Returns the name of the cluster whose Cluster object the change modifies. Returns `None` for changes of the
    /// binding.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Uncordon { cluster }
            | Self::SetLabel { cluster, .. }
            | Self::RemoveLabel { cluster, .. }
            | Self::SetField { cluster, .. }
            | Self::RemoveField { cluster, .. }
            | Self::RemoveTaint { cluster, .. }
            | Self::InstallApi { cluster, .. }
            | Self::RaiseRoom { cluster, .. } => Some(cluster),
            Self::Tolerate { .. }
            | Self::AddClusterName { .. }
            | Self::DropExclude { .. }
            | Self::RaiseMaxGroups { .. }
            | Self::LowerMinGroups { .. }
            | Self::EndEviction { .. }
            | Self::SetWeight { .. }
            | Self::Reschedule
            | Self::ScaleReplicas { .. } => None,
        }
    }

    /// Returns the effort of the change, by which fixes are sorted. The effort of changes to metadata is lowest,
    /// followed by changes to policies, and by changes to workloads and capacity.
    pub(crate) fn effort(&self) -> (u8, i64) {
        match self {
            Self::Uncordon { .. } => (0, 0),
            Self::SetLabel { .. } | Self::RemoveLabel { .. } => (1, 0),
            Self::RemoveTaint { .. } => (2, 0),
            Self::Tolerate { .. } | Self::AddClusterName { .. } | Self::DropExclude { .. } => {
                (3, 0)
            }
            Self::RaiseMaxGroups { from, to, .. } | Self::LowerMinGroups { from, to, .. } => {
                (3, (to - from).abs())
            }
            Self::SetWeight { weight, .. } => (3, *weight),
            Self::Reschedule => (4, 0),
            Self::SetField { .. } | Self::RemoveField { .. } => (5, 0),
            Self::EndEviction { .. } => (6, 0),
            Self::InstallApi { .. } => (7, 0),
            Self::RaiseRoom { from, to, .. } => (8, to - from),
            Self::ScaleReplicas { from, to } => (9, (to - from).abs()),
        }
    }

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
            Self::RaiseRoom { to, .. } => make_room(cluster, spec, *to),
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
fn make_room(cluster: &mut Cluster, spec: &BindingSpec, replicas: i64) {
    let status = cluster.status.get_or_insert_default();
    let summary = status.resource_summary.get_or_insert_default();
    // If resource models were present, estimates would use them instead of the summary.
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
    for ask in request.iter().flat_map(ResourceRequest::asks) {
        let amount = ask.units.saturating_mul(replicas);
        if ask.resource == "cpu" {
            set("cpu", format!("{amount}m"));
        } else if ask.resource != "pods" {
            set(&ask.resource, amount.to_string());
        }
    }
}

/// Returns the primary affinity of the affinity term with this name. Returns `clusterAffinity` if `name` is `None`.
fn affinity_named<'a>(
    placement: &'a mut berth_api::placement::Placement,
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
pub(crate) fn property(constraint: &SpreadConstraint) -> String {
    match (&constraint.spread_by_field, &constraint.spread_by_label) {
        (Some(field), _) if !field.as_str().is_empty() => field.as_str().to_owned(),
        (_, Some(key)) => format!("label {key}"),
        _ => String::new(),
    }
}
