//! Workloads that clusters do not report correctly yet: recently placed or recently removed.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;

use crate::request::ResourceRequest;

/// A workload that occupies capacity of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssumedWorkload {
    /// Replicas and request of each pod template.
    pub components: Vec<(i32, ResourceRequest)>,
}

/// Corrections of the capacity that clusters report.
///
/// The caller decides which workloads to correct for. The scheduler adds recent placements (gate
/// SchedulingOvercommitProtection), and frees workloads to simulate a fleet without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    clusters: BTreeMap<String, Adjustments>,
}

/// The corrections for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adjustments {
    /// Workloads that occupy capacity reported as free.
    pub(crate) added: Vec<AssumedWorkload>,
    /// Workloads that free capacity reported as occupied.
    pub(crate) removed: Vec<AssumedWorkload>,
}

impl Adjustments {
    /// No corrections.
    pub(crate) const NONE: &Self = &Self {
        added: Vec::new(),
        removed: Vec::new(),
    };
}

/// No corrections for any cluster.
pub(crate) static NO_ASSUMPTIONS: Assumed = Assumed {
    clusters: BTreeMap::new(),
};

impl Assumed {
    /// Adds a workload to a cluster.
    pub fn add(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters
            .entry(cluster.to_owned())
            .or_default()
            .added
            .push(workload);
    }

    /// Removes a workload that a cluster still reports.
    pub fn free(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters
            .entry(cluster.to_owned())
            .or_default()
            .removed
            .push(workload);
    }

    /// Reports whether there are no corrections.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Returns the workloads added to a cluster.
    pub fn of(&self, cluster: &str) -> &[AssumedWorkload] {
        &self.adjustments(cluster).added
    }

    /// Iterates over the clusters with added workloads, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[AssumedWorkload])> {
        let clusters = self.clusters.iter();
        clusters
            .map(|(name, adjustments)| (name.as_str(), adjustments.added.as_slice()))
            .filter(|(_, added)| !added.is_empty())
    }

    pub(crate) fn adjustments(&self, cluster: &str) -> &Adjustments {
        self.clusters.get(cluster).unwrap_or(Adjustments::NONE)
    }
}

/// The net capacity that workloads occupy; negative if more was freed than added.
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
            for ask in request.asks() {
                let sum = self.resources.entry(ask.resource.clone()).or_default();
                *sum = *sum + ask.quantity.times(replicas);
            }
        }
    }
}
