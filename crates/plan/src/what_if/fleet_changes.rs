//! The changes that a user can simulate: a cluster is lost, tainted, drained, added or resized, or a binding is scaled.

use std::sync::Arc;

use berth_api::node_pools::NodePools;
use berth_api::quantity::QuantityText;
use berth_api::well_known::UNSCHEDULABLE;
use berth_api::{BindingKey, Cluster};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::control_plane_state::{Bindings, ControlPlaneState};

/// Note for simulations with a taint.
pub(crate) const TAINT_NOTE: &str = "a taint keeps new workloads out of the cluster; only a taint with the effect \
     NoExecute moves placed workloads";

/// Note for simulations with a drained cluster.
pub(crate) const DRAIN_NOTE: &str = "bindings that fit into no other cluster become unschedulable here, while \
     `berth drain` leaves them where they are";

/// A change to simulate.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A cluster changes.
    Fleet(FleetChange),
    /// The workload of a binding is scaled.
    Scale {
        /// Key of the binding.
        binding: BindingKey,
        /// The new number of replicas.
        replicas: i32,
    },
}

impl Change {
    /// Applies the change.
    ///
    /// # Errors
    /// When the cluster or the binding does not exist, or cannot be changed in this way.
    pub(super) fn apply(&self, state: &mut ControlPlaneState) -> Result<(), ChangeError> {
        match self {
            Self::Fleet(change) => change.apply(state),
            Self::Scale { binding, replicas } => scale(&mut state.bindings, binding, *replicas),
        }
    }
}

/// A change of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetChange {
    /// A cluster is lost.
    Lose {
        /// Name of the cluster.
        cluster: String,
    },
    /// A cluster gets a taint.
    Taint {
        /// Name of the cluster.
        cluster: String,
        /// The added taint.
        taint: Taint,
    },
    /// A cluster is cordoned, and all bindings are evicted from it.
    Drain {
        /// Name of the cluster.
        cluster: String,
    },
    /// A cluster joins without workloads. Its labels, taints, APIs and size are copied from an existing cluster.
    Join {
        /// Name of the joining cluster.
        cluster: String,
        /// Name of the existing cluster.
        like: String,
    },
    /// The allocatable amount of a resource changes. The node pools and the `allocatableModelings` of the cluster are
    /// removed.
    Capacity {
        /// Name of the cluster.
        cluster: String,
        /// Name of the resource.
        resource: String,
        /// The new amount.
        amount: QuantityText,
    },
}

/// Parses `KEY[=VALUE]:EFFECT`. Returns `syntax` as the error for a text of another form.
///
/// # Errors
/// When the text has another form, or the effect is neither `NoSchedule` nor `NoExecute`.
pub fn parse_taint(text: &str, syntax: &str) -> Result<Taint, String> {
    let (pair, effect) = text.rsplit_once(':').ok_or(syntax)?;
    let (key, value) = pair
        .split_once('=')
        .map_or((pair, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err(syntax.to_owned());
    }
    if !["NoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!(
            "the effect {effect:?} must be NoSchedule or NoExecute"
        ));
    }
    Ok(Taint {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    })
}

/// Reason for which a change cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The cluster does not exist.
    #[error("there is no cluster {0}")]
    NoCluster(String),
    /// A cluster with the name of the joining cluster already exists.
    #[error("there is already a cluster {0}; choose another name")]
    ClusterExists(String),
    /// The binding does not exist.
    #[error("there is no binding {0}")]
    NoBinding(BindingKey),
    /// The binding has no number of replicas, or several components with separate numbers of replicas.
    #[error("{0} has no single number of replicas")]
    NoReplicas(BindingKey),
}

impl FleetChange {
    /// Returns the name of the changed cluster.
    pub(crate) fn cluster(&self) -> &str {
        match self {
            Self::Lose { cluster }
            | Self::Drain { cluster }
            | Self::Taint { cluster, .. }
            | Self::Join { cluster, .. }
            | Self::Capacity { cluster, .. } => cluster,
        }
    }

    /// Applies the change.
    ///
    /// # Errors
    /// When the changed cluster or the cluster to copy does not exist, or the joining cluster already exists.
    pub(crate) fn apply(&self, state: &mut ControlPlaneState) -> Result<(), ChangeError> {
        let clusters = &mut state.clusters;
        let name = match self {
            Self::Join { cluster, .. } if clusters.contains_key(cluster) => {
                return Err(ChangeError::ClusterExists(cluster.clone()));
            }
            Self::Join { like, .. } => like,
            Self::Lose { .. } | Self::Drain { .. } | Self::Taint { .. } | Self::Capacity { .. } => {
                self.cluster()
            }
        };
        let missing = || ChangeError::NoCluster(name.to_owned());
        let cluster = clusters.get_mut(name).ok_or_else(missing)?;
        if let Self::Join { cluster: name, .. } = self {
            let mut joining = Cluster::clone(cluster);
            joining.metadata = ObjectMeta {
                name: Some(name.clone()),
                labels: joining.metadata.labels,
                generation: Some(1),
                ..ObjectMeta::default()
            };
            if let Some(summary) = joining
                .status
                .as_mut()
                .and_then(|status| status.resource_summary.as_mut())
            {
                summary.allocated.clear();
                summary.allocating.clear();
            }
            clusters.insert(name.clone(), Arc::new(joining));
            return Ok(());
        }
        let cluster = Arc::make_mut(cluster);
        match self {
            // After the deletion timestamp is set, the scheduler processes the bindings of the cluster.
            Self::Lose { .. } => {
                cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::now()));
            }
            Self::Taint { taint, .. } => add_taint(cluster, taint.clone()),
            Self::Drain { cluster: name } => {
                let cordon = Taint {
                    key: UNSCHEDULABLE.to_owned(),
                    effect: "NoSchedule".to_owned(),
                    ..Taint::default()
                };
                add_taint(cluster, cordon);
                state.drained.insert(name.clone());
            }
            Self::Capacity {
                resource, amount, ..
            } => {
                // If the cluster had node pools or `allocatableModelings`, the engine would read the capacity from them
                // and ignore the new amount.
                NodePools::remove(cluster);
                let status = cluster.status.get_or_insert_default();
                let summary = status.resource_summary.get_or_insert_default();
                summary.allocatable.insert(resource.clone(), amount.clone());
                summary.allocatable_modelings.clear();
            }
            Self::Join { .. } => {}
        }
        Ok(())
    }
}

/// Adds a taint to a cluster, or replaces the taint with the same key and effect.
fn add_taint(cluster: &mut Cluster, taint: Taint) {
    let taints = &mut cluster.spec.taints;
    taints.retain(|known| known.key != taint.key || known.effect != taint.effect);
    taints.push(taint);
    let generation = cluster.metadata.generation.unwrap_or(0);
    cluster.metadata.generation = Some(generation.saturating_add(1));
}

/// Changes the replicas of a binding, as the detector does after a user has scaled the template.
///
/// # Errors
/// When the binding does not exist, or has no single number of replicas.
fn scale(bindings: &mut Bindings, key: &BindingKey, replicas: i32) -> Result<(), ChangeError> {
    let missing = || ChangeError::NoBinding(key.clone());
    let binding = bindings.get_mut(key).ok_or_else(missing)?;
    if !binding.spec.is_workload() || binding.spec.components.len() > 1 {
        return Err(ChangeError::NoReplicas(key.clone()));
    }
    let binding = Arc::make_mut(binding);
    if binding.spec.replicas != replicas {
        binding.spec.replicas = replicas;
        let generation = binding.generation().saturating_add(1);
        binding.metadata.generation = Some(generation);
    }
    Ok(())
}
