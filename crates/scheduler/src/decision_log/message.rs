//! The messages from the scheduler to the writer thread of the decision log, and the counter of dropped decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::{Cluster, ClusterScore};
use berth_metrics::{ConstCounter, Registry};

use super::format::Configuration;
use crate::recorded_decision::RecordedDecision;

/// A message in the channel to the writer thread.
#[derive(Debug)]
pub(super) enum Message {
    Configuration(Arc<Configuration>),
    /// A cluster, or `None` after its deletion.
    Cluster(String, Option<Arc<Cluster>>),
    /// A ClusterScore, or `None` after its deletion.
    Score(String, Option<Arc<ClusterScore>>),
    Decision(Arc<RecordedDecision>),
    Gap(u64),
}

/// Counter of the decisions that are missing in the log. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct DroppedDecisions(Arc<AtomicU64>);

impl DroppedDecisions {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of missing decisions.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Registers the metric.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "berth_decision_log_dropped_total",
            "Number of decisions that are missing in the decision log, because it was written too slowly or not at all.",
            ConstCounter::new(self.get()),
        );
    }
}
