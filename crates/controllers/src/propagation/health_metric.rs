//! The metric of the bindings by health. It follows the observed bindings and clusters, so that it also counts bindings
//! whose status this process does not write: those that no scheduler has placed.

use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use berth_apimachinery::timestamp;
use berth_diagnosis::ClusterState;

use super::reconciler::{Propagator, Source};
use crate::monitor::binding_health::HealthTimeline;

impl Propagator {
    /// Counts a new or changed binding. Before all clusters are listed, a binding is not counted, because its clusters
    /// would be missing.
    pub(super) fn count_health(&self, binding: &Binding) {
        if self.listed.contains(&Source::Clusters) {
            let timeline = self.health_timeline(binding);
            self.monitor.count_binding(&binding.key, timeline);
        }
    }

    /// Counts a binding again whose cluster has changed.
    pub(super) fn count_health_again(&self, key: &BindingKey) {
        if let Some(binding) = self.index.binding(key) {
            self.count_health(binding);
        }
    }

    /// Counts the bindings that were listed before the clusters.
    pub(super) fn count_all_health(&self) {
        let keys = self.index.binding_keys();
        let bindings = keys.filter_map(|key| self.index.binding(key));
        let timelines =
            bindings.map(|binding| (binding.key.clone(), self.health_timeline(binding)));
        self.monitor.count_bindings(timelines.collect());
    }

    fn health_timeline(&self, binding: &Binding) -> HealthTimeline {
        let clusters = &self.index.clusters;
        let state = |name: &str| ClusterState::of(clusters.get(name).map(Arc::as_ref));
        HealthTimeline::of(binding, &state, timestamp::now())
    }
}
