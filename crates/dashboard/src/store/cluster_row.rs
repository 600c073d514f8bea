//! The row of a cluster in the store.

use berth_api::cluster::ResourceUsage;
use berth_api::quantity::Quantity;
use berth_api::well_known::CONDITION_READY;
use berth_api::{Cluster, condition};
use berth_diagnosis::{ClusterState, PausedEvictions};

/// The state of a cluster in one word, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClusterHealth {
    /// The cluster is not ready: its last reports are outdated, and its capacity does not count.
    NotReady,
    /// The cluster is ready, and a condition reports a problem or paused evictions.
    Impaired,
    /// The cluster is ready, and a taint keeps workloads away.
    Tainted,
    /// The cluster is ready.
    Ready,
}

impl ClusterHealth {
    pub(crate) const WORST_FIRST: [Self; 4] =
        [Self::NotReady, Self::Impaired, Self::Tainted, Self::Ready];

    /// Returns the value in the URL, and the label.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::NotReady => ("not-ready", "Not ready"),
            Self::Impaired => ("impaired", "Impaired"),
            Self::Tainted => ("tainted", "Tainted"),
            Self::Ready => ("ready", "Ready"),
        }
    }
}

/// The fields of a cluster that the pages show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterRow {
    pub(crate) provider: String,
    pub(crate) region: String,
    pub(crate) zone: String,
    /// The state as far as it matters for the copies there.
    pub(crate) state: ClusterState,
    /// Message of the condition Ready.
    pub(crate) message: String,
    pub(crate) taints: Vec<String>,
    /// True if a taint keeps workloads away.
    is_repelling: bool,
    /// Types of the conditions with the status False, except Ready.
    pub(crate) problems: Vec<String>,
    /// Message of the condition EvictionsPaused, or `None` if evictions go on.
    pub(crate) evictions_paused: Option<String>,
    pub(crate) version: String,
    pub(crate) cpu: Option<ResourceUsage>,
    pub(crate) memory: Option<ResourceUsage>,
    pub(crate) pods: Option<ResourceUsage>,
}

impl ClusterRow {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let (spec, status) = (&cluster.spec, cluster.status.as_ref());
        let conditions = status.map(|status| status.conditions.as_slice());
        let conditions = conditions.unwrap_or_default();
        let ready = condition::find(conditions, CONDITION_READY);
        let summary = status.and_then(|status| status.resource_summary.as_ref());
        let usage = |resource, number| summary?.usage(resource, number);
        let zones = if spec.zones.is_empty() {
            spec.zone.clone().unwrap_or_default()
        } else {
            spec.zones.join(", ")
        };
        let taints = spec.taints.iter().map(|taint| {
            let value = taint.value.as_deref().filter(|value| !value.is_empty());
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            format!("{}{value}:{}", taint.key, taint.effect)
        });
        let problems = conditions
            .iter()
            .filter(|of| of.type_ != CONDITION_READY && of.status == "False");
        Self {
            provider: spec.provider.clone().unwrap_or_default(),
            region: spec.region.clone().unwrap_or_default(),
            zone: zones,
            state: ClusterState::of(Some(cluster)),
            message: ready.map_or_else(|| "no condition Ready".to_owned(), |of| of.message.clone()),
            taints: taints.collect(),
            is_repelling: spec
                .taints
                .iter()
                .any(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute")),
            problems: problems.map(|of| of.type_.clone()).collect(),
            evictions_paused: PausedEvictions::message_of(cluster).map(str::to_owned),
            version: status
                .and_then(|status| status.kubernetes_version.clone())
                .unwrap_or_default(),
            cpu: usage("cpu", Quantity::milli_value),
            memory: usage("memory", Quantity::value),
            pods: usage("pods", Quantity::value),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == ClusterState::Ready
    }

    /// Returns the state in one word.
    pub(crate) fn health(&self) -> ClusterHealth {
        if !self.is_ready() {
            ClusterHealth::NotReady
        } else if !self.problems.is_empty() || self.evictions_paused.is_some() {
            ClusterHealth::Impaired
        } else if self.is_repelling {
            ClusterHealth::Tainted
        } else {
            ClusterHealth::Ready
        }
    }

    /// Returns the largest used share of CPU, memory and pods in thousandths. `None` if the cluster is not ready or reports
    /// no capacity, so that nothing is known about its load.
    pub(crate) fn load_permille(&self) -> Option<i64> {
        let all = [self.cpu, self.memory, self.pods].into_iter().flatten();
        all.map(ResourceUsage::permille)
            .max()
            .filter(|_| self.is_ready())
    }

    /// Returns provider, region and zone.
    pub(crate) fn location(&self) -> (&str, &str, &str) {
        (&self.provider, &self.region, &self.zone)
    }
}
