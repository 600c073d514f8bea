//! Single changes of a cluster, a placement or a workload, and the instruction to the user for each change. [`apply`]
//! applies a change to the objects.

mod apply;

use std::fmt;

use berth_engine::UnmetRequirement;
use serde::{Deserialize, Serialize};

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
    /// Sets the maximum of a spread constraint. Adds the constraint if it does not exist.
    RaiseMaxGroups {
        /// The property by which the constraint groups clusters.
        by: String,
        /// The present maximum, or 0 if the constraint does not exist or has no maximum.
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
    #[serde(rename = "raiseRoom")]
    RaiseCapacity {
        /// The name of the cluster.
        cluster: String,
        /// The present free capacity, as a number of replicas of the workload.
        from: i64,
        /// The new free capacity, as a number of replicas of the workload.
        to: i64,
    },
    /// Raises the number of replicas that fit on the nodes of a cluster, by the answer of its accurate estimator.
    RaiseNodeCapacity {
        /// The name of the cluster.
        cluster: String,
        /// The present number of replicas that fit.
        from: i64,
        /// The new number of replicas that fit.
        to: i64,
        /// The requirement of the pods that no node of the cluster satisfies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unmet: Option<UnmetRequirement>,
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
            | Self::RaiseCapacity { cluster, .. }
            | Self::RaiseNodeCapacity { cluster, .. } => Some(cluster),
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

    /// Returns the effort of the change, by which fixes with equally many changes are sorted. Changes of a cluster's
    /// labels and taints have the lowest effort, then changes of the policy. Changes of capacity and of the workload's
    /// replicas have the highest effort.
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
            Self::RaiseCapacity { from, to, .. } | Self::RaiseNodeCapacity { from, to, .. } => {
                (8, to - from)
            }
            Self::ScaleReplicas { from, to } => (9, (to - from).abs()),
        }
    }
}

/// Writes the reason why pods do not fit on the nodes of a cluster.
fn node_mismatch(
    f: &mut fmt::Formatter<'_>,
    cluster: &str,
    unmet: Option<&UnmetRequirement>,
) -> fmt::Result {
    match unmet {
        None => f.write_str(
            "compare `kubectl describe nodes` there with the node selector, affinity, tolerations and requests of the \
             pods",
        ),
        Some(UnmetRequirement::NodeLabel { key, value }) => {
            write!(f, "no node of {cluster} has the label {key}={value}")
        }
        Some(UnmetRequirement::NodeAffinity) => write!(
            f,
            "no node of {cluster} satisfies the required node affinity of the pods"
        ),
        Some(UnmetRequirement::Tolerations) => write!(
            f,
            "each node of {cluster} has a taint that the pods do not tolerate"
        ),
        Some(UnmetRequirement::Combination) => write!(
            f,
            "no node of {cluster} satisfies the node selector, affinity and tolerations of the pods together"
        ),
    }
}

/// Formats the change as an instruction, for example `uncordon member1`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |affinity: &Option<String>| match affinity {
            Some(name) => format!("the affinity term {name}"),
            None => "clusterAffinity".to_owned(),
        };
        match self {
            Self::Uncordon { cluster } => write!(f, "uncordon {cluster}"),
            Self::SetLabel {
                cluster,
                key,
                value,
            } => write!(f, "label {cluster} with {key}={value}"),
            Self::RemoveLabel { cluster, key } => write!(f, "remove the label {key} of {cluster}"),
            Self::SetField {
                cluster,
                field,
                value,
            } => write!(f, "set the {field} of {cluster} to {value}"),
            Self::RemoveField {
                cluster,
                field,
                value,
            } => write!(f, "remove the {field} {value} of {cluster}"),
            Self::RemoveTaint { cluster, taint } => match taint.key.as_str() {
                "cluster.karmada.io/not-ready" | "cluster.karmada.io/unreachable" => {
                    write!(f, "make {cluster} ready, which removes its taint {taint}")
                }
                _ => write!(f, "remove the taint {taint} of {cluster}"),
            },
            Self::Tolerate { taint } => write!(f, "tolerate {taint} in the policy"),
            Self::AddClusterName { cluster, affinity } => {
                write!(f, "add {cluster} to clusterNames of {}", of(affinity))
            }
            Self::DropExclude { cluster, affinity } => {
                write!(f, "remove {cluster} from exclude of {}", of(affinity))
            }
            Self::RaiseMaxGroups { by, from: 0, to } => {
                write!(f, "set maxGroups {to} in a spread constraint by {by}")
            }
            Self::RaiseMaxGroups { by, from, to } => write!(
                f,
                "raise maxGroups of the spread constraint by {by} from {from} to {to}"
            ),
            Self::LowerMinGroups { by, from, to } => write!(
                f,
                "lower minGroups of the spread constraint by {by} from {from} to {to}"
            ),
            Self::EndEviction { cluster } => write!(f, "end the eviction from {cluster}"),
            Self::SetWeight { cluster, weight } => {
                write!(f, "give {cluster} the static weight {weight}")
            }
            Self::Reschedule => f.write_str("request rescheduling with a WorkloadRebalancer"),
            Self::ScaleReplicas { from, to } => {
                write!(f, "scale the workload from {from} to {to} replicas")
            }
            Self::InstallApi {
                cluster,
                api_version,
                api_kind,
            } => write!(f, "install the API {api_version} {api_kind} in {cluster}"),
            Self::RaiseCapacity { cluster, from, to } => write!(
                f,
                "raise the free capacity of {cluster} from {from} to {to} replicas"
            ),
            Self::RaiseNodeCapacity {
                cluster,
                from,
                to,
                unmet,
            } => {
                let replicas = if *to == 1 { "replica" } else { "replicas" };
                write!(
                    f,
                    "make room for {to} {replicas} on the nodes of {cluster}, which have room for {from}: "
                )?;
                node_mismatch(f, cluster, unmet.as_ref())
            }
        }
    }
}
