//! [`Assumed`]: recent placements and removals that the caller passes to a decision, to correct the free capacity that
//! clusters report.
//!
//! Clusters report their free capacity with a delay. The report does not include recently placed workloads, and still
//! includes recently removed workloads.

mod by_cluster;

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;

use self::by_cluster::ByCluster;
use crate::request::ResourceRequest;

/// A workload by which the reported capacity of a cluster is corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssumedWorkload {
    /// The number of replicas of each pod template, and the resource request of one replica.
    pub components: Vec<(i32, ResourceRequest)>,
}

/// Corrections of the free capacity that clusters report.
///
/// The scheduler adds recently placed workloads (feature gate SchedulingOvercommitProtection). It removes workloads to
/// simulate a fleet without these workloads, for example before a preemption.
///
/// A clone shares its content. Workloads with one pod template and equal requests are one workload with the sum of their
/// replicas, so that the size depends on the number of different requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    clusters: ByCluster,
}

/// The corrections for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adjustments {
    /// Workloads whose capacity the cluster still reports as free.
    pub(crate) added: Vec<AssumedWorkload>,
    /// Removed workloads whose capacity the cluster still reports as used.
    pub(crate) removed: Vec<AssumedWorkload>,
    /// The number of replicas that the nodes of the cluster take, whatever its accurate estimator and its node pools say.
    pub(crate) on_nodes: Option<i32>,
}

impl Adjustments {
    /// Reports whether there are no corrections.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// No corrections for a cluster.
    pub(crate) const NONE: &Self = &Self {
        added: Vec::new(),
        removed: Vec::new(),
        on_nodes: None,
    };
}

impl AssumedWorkload {
    /// Adds a workload to a list, or adds its replicas to a workload with an equal request.
    fn add_to(self, workloads: &mut Vec<Self>) {
        if let [(replicas, request)] = &*self.components
            && let Some((sum, _)) = component_with(workloads, request)
        {
            *sum = sum.saturating_add(*replicas);
            return;
        }
        workloads.push(self);
    }

    /// Reverts [`Self::add_to`].
    fn remove_from(&self, workloads: &mut Vec<Self>) {
        if let [(replicas, request)] = &*self.components {
            if let Some((sum, _)) = component_with(workloads, request) {
                *sum = sum.saturating_sub(*replicas);
            }
            workloads.retain(|workload| !matches!(&*workload.components, [(0, _)]));
        } else if let Some(index) = workloads.iter().position(|workload| workload == self) {
            workloads.remove(index);
        }
    }
}

/// Returns the component of the workload that has only one component, with this request.
fn component_with<'a>(
    workloads: &'a mut [AssumedWorkload],
    request: &ResourceRequest,
) -> Option<&'a mut (i32, ResourceRequest)> {
    workloads
        .iter_mut()
        .find_map(|workload| match &mut *workload.components {
            [component] if component.1 == *request => Some(component),
            _ => None,
        })
}

/// Returns no corrections for any cluster.
pub(crate) fn no_assumptions() -> &'static Assumed {
    static NONE: std::sync::LazyLock<Assumed> = std::sync::LazyLock::new(Assumed::default);
    &NONE
}

impl Assumed {
    /// Corrects the capacity of a cluster by a workload that the cluster does not report yet.
    pub fn add(&mut self, cluster: &str, workload: AssumedWorkload) {
        workload.add_to(&mut self.clusters.entry(cluster).added);
    }

    /// Reverts [`Self::add`].
    pub fn remove(&mut self, cluster: &str, workload: &AssumedWorkload) {
        workload.remove_from(&mut self.clusters.entry(cluster).added);
        self.clusters.remove_if_empty(cluster);
    }

    /// Corrects the capacity of a cluster by a removed workload that the cluster still reports.
    pub fn free(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters.entry(cluster).removed.push(workload);
    }

    /// Corrects the answer of the cluster's accurate estimator, and the estimate from its node pools, to at least this
    /// number of replicas.
    pub fn raise_on_nodes(&mut self, cluster: &str, replicas: i32) {
        self.clusters.entry(cluster).on_nodes = Some(replicas);
    }

    /// Returns the number of replicas that [`Self::raise_on_nodes`] stored for a cluster.
    pub fn on_nodes(&self, cluster: &str) -> Option<i32> {
        self.adjustments(cluster).on_nodes
    }

    /// Reports whether there are no corrections.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Returns the workloads that [`Self::add`] stored for a cluster.
    pub fn of(&self, cluster: &str) -> &[AssumedWorkload] {
        &self.adjustments(cluster).added
    }

    /// Returns the clusters for which [`Self::add`] stored workloads, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[AssumedWorkload])> {
        let clusters = self.clusters.sorted().into_iter();
        clusters
            .map(|(name, adjustments)| (name, adjustments.added.as_slice()))
            .filter(|(_, added)| !added.is_empty())
    }

    pub(crate) fn adjustments(&self, cluster: &str) -> &Adjustments {
        self.clusters.get(cluster).unwrap_or(Adjustments::NONE)
    }
}

/// The total request of the added workloads minus the total request of the removed workloads. The values can be
/// negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) pods: i64,
    pub(crate) resources: BTreeMap<String, Quantity>,
}

impl Demand {
    pub(crate) fn of(adjustments: &Adjustments) -> Self {
        let mut demand = Self::default();
        demand.add(&adjustments.added, 1);
        demand.add(&adjustments.removed, -1);
        demand
    }

    fn add(&mut self, workloads: &[AssumedWorkload], times: i64) {
        for (replicas, request) in workloads.iter().flat_map(|workload| &workload.components) {
            let replicas = i64::from(*replicas).max(0) * times;
            self.pods = self.pods.saturating_add(replicas);
            for amount in request.amounts() {
                let sum = self.resources.entry(amount.resource.clone()).or_default();
                *sum = *sum + amount.quantity.times(replicas);
            }
        }
    }
}
