//! Workloads that were placed, but that clusters do not report yet.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;

use crate::request::ResourceRequest;

/// A workload that takes room in a cluster, although the cluster does not report it yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssumedWorkload {
    /// For each pod template its replicas, and what each of them asks for.
    pub components: Vec<(i32, ResourceRequest)>,
}

/// Assumed workloads by cluster. Used under the gate SchedulingOvercommitProtection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    clusters: BTreeMap<String, Vec<AssumedWorkload>>,
}

impl Assumed {
    /// Assumes that a cluster holds one more workload.
    pub fn add(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters
            .entry(cluster.to_owned())
            .or_default()
            .push(workload);
    }

    /// Whether nothing is assumed.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// What is assumed of a cluster.
    pub fn of(&self, cluster: &str) -> &[AssumedWorkload] {
        self.clusters
            .get(cluster)
            .map_or(&[], |workloads| workloads)
    }
}

/// The room that workloads take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) pods: i64,
    pub(crate) resources: BTreeMap<String, Quantity>,
}

impl Demand {
    pub(crate) fn of(workloads: &[AssumedWorkload]) -> Self {
        let mut demand = Self::default();
        for (replicas, request) in workloads.iter().flat_map(|workload| &workload.components) {
            let replicas = i64::from(*replicas).max(0);
            demand.pods = demand.pods.saturating_add(replicas);
            for ask in request.asks() {
                let sum = demand.resources.entry(ask.resource.clone()).or_default();
                *sum = *sum + ask.quantity.times(replicas);
            }
        }
        demand
    }
}
