//! Workloads that were placed, or have gone, while clusters do not report it yet.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;

use crate::request::ResourceRequest;

/// A workload that takes room in a cluster, although the cluster does not report it yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssumedWorkload {
    /// For each pod template its replicas, and what each of them asks for.
    pub components: Vec<(i32, ResourceRequest)>,
}

/// What differs from the reports of clusters. Whoever decides with it says what counts: the service assumes
/// what it has placed under the gate SchedulingOvercommitProtection, or where a plugin needs that, and what
/// is free where it tries a fleet without some of its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    clusters: BTreeMap<String, Shift>,
}

/// What differs from the report of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Takes room that is reported free.
    pub(crate) taken: Vec<AssumedWorkload>,
    /// Leaves room that is reported taken.
    pub(crate) freed: Vec<AssumedWorkload>,
}

impl Shift {
    /// Where nothing differs.
    pub(crate) const NOTHING: &Self = &Self {
        taken: Vec::new(),
        freed: Vec::new(),
    };
}

/// Nothing is assumed.
pub(crate) static NOTHING: Assumed = Assumed {
    clusters: BTreeMap::new(),
};

impl Assumed {
    /// Assumes that a cluster holds one more workload.
    pub fn add(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters
            .entry(cluster.to_owned())
            .or_default()
            .taken
            .push(workload);
    }

    /// Assumes that a workload which a cluster reports has gone.
    pub fn free(&mut self, cluster: &str, workload: AssumedWorkload) {
        self.clusters
            .entry(cluster.to_owned())
            .or_default()
            .freed
            .push(workload);
    }

    /// Whether nothing is assumed.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// What is assumed to be in a cluster besides what it reports.
    pub fn of(&self, cluster: &str) -> &[AssumedWorkload] {
        &self.shift(cluster).taken
    }

    pub(crate) fn shift(&self, cluster: &str) -> &Shift {
        self.clusters.get(cluster).unwrap_or(Shift::NOTHING)
    }
}

/// The room that workloads take, less than nothing where more have gone than came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) pods: i64,
    pub(crate) resources: BTreeMap<String, Quantity>,
}

impl Demand {
    pub(crate) fn of(shift: &Shift) -> Self {
        let mut demand = Self::default();
        demand.add(&shift.taken, 1);
        demand.add(&shift.freed, -1);
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
