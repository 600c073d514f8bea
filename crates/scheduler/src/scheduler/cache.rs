//! The scheduler's knowledge of the control plane: the clusters and bindings from the watches, and the decisions that
//! no watch event shows yet.

use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::Snapshot;

use super::bindings::{AppliedBinding, Bindings};
use super::configurations::Configurations;
use crate::capacity_book::CapacityBook;
use crate::clusters::Clusters;
use crate::framework::{DecisionFate, State};
use crate::quota_book::QuotaBook;
use crate::rules::plan::Plan;
use crate::watch::list_progress::{ListProgress, Source};

/// The known clusters and bindings, and the unfinished decisions about them.
pub(super) struct Cache {
    pub(super) clusters: Clusters,
    pub(super) bindings: Bindings,
    /// Clusters and bindings that plugins can read.
    pub(super) plugin_state: State,
    pub(super) book: CapacityBook,
    /// Present if the scheduler enforces FederatedResourceQuotas or ClusterQueues.
    pub(super) quotas: Option<QuotaBook>,
    pub(super) lists: ListProgress,
}

impl Cache {
    /// Creates a cache without clusters and bindings.
    pub(super) fn new(clusters: Clusters, plugin_state: State, book: CapacityBook) -> Self {
        Self {
            clusters,
            bindings: Bindings::default(),
            plugin_state,
            book,
            quotas: None,
            lists: ListProgress::default(),
        }
    }

    /// Starts to count the usage of limits. No decision is made before the first lists of their `sources` are complete.
    pub(super) fn count_quotas(&mut self, sources: &[Source]) {
        self.quotas.get_or_insert_default();
        for source in sources {
            self.lists.expect(*source);
        }
    }

    /// Returns the snapshot of the clusters for a decision. Plugins read the same snapshot.
    pub(super) fn snapshot(&mut self) -> Arc<Snapshot> {
        Arc::clone(self.clusters.snapshot(&self.plugin_state))
    }

    /// Adds or replaces a binding, and notifies the Follow plugins of the configuration. `own_generation` is the
    /// generation that a write of this scheduler produced, or 0.
    pub(super) fn apply(&mut self, config: &Configurations, binding: Binding, own_generation: i64) {
        if self.bindings.is_news(&binding) {
            config.notify_followers(&binding);
        }
        let now = Instant::now();
        match self.bindings.apply(binding, own_generation) {
            AppliedBinding::Added(binding) => {
                self.book
                    .binding_added(&binding, jiff::Timestamp::now(), now);
                if let Some(quotas) = &mut self.quotas {
                    quotas.binding_changed(None, &binding);
                }
                self.plugin_state.set_binding(&binding);
            }
            AppliedBinding::Changed { old, new } => {
                self.book.binding_changed(&old, &new, now);
                if let Some(quotas) = &mut self.quotas {
                    quotas.binding_changed(Some(&old), &new);
                }
                self.plugin_state.set_binding(&new);
            }
            AppliedBinding::Outdated => {}
        }
    }

    /// Replaces a binding by the object in the response to a write, unless a watch event has since reported the deletion
    /// of the object.
    pub(super) fn apply_written(
        &mut self,
        config: &Configurations,
        binding: Binding,
        own_generation: i64,
    ) {
        if self.bindings.get(&binding.key).is_some() {
            self.apply(config, binding, own_generation);
        }
    }

    /// Makes a decision visible to all further decisions until [`Self::complete`] is called.
    pub(super) fn assume(&mut self, binding: &Binding, plan: &Plan, now: Instant) {
        let Some(targets) = &plan.targets else { return };
        self.plugin_state.decided(&binding.key, Arc::clone(targets));
        self.book.decided(binding, targets, now);
        if let Some(quotas) = &mut self.quotas {
            quotas.decided(binding, targets);
        }
    }

    /// Completes an assumed decision.
    pub(super) fn complete(&mut self, key: &BindingKey, fate: DecisionFate) {
        self.plugin_state.complete(key, fate);
        self.book.complete(key, fate);
        if let Some(quotas) = &mut self.quotas {
            quotas.complete(key);
        }
    }
}
