//! Replacement of the scheduler's configuration at run time. The module `profiles::config_map_watch` builds the new
//! configuration.

use std::collections::HashSet;
use std::time::Instant;

use berth_api::BindingKey;

use super::Scheduler;
use crate::metrics::Incoming;
use crate::profiles::builder::ActiveConfig;
use crate::profiles::config_map_watch::ConfigChange;

impl Scheduler {
    /// Uses a new configuration for all further decisions. Drops the decisions that wait for Permit, and decides their
    /// bindings again. Pending writes finish with the old configuration.
    pub(super) fn apply_config_change(&mut self, change: ConfigChange) {
        let now = Instant::now();
        if let Some(log) = &mut self.decision_log {
            log.document(change.config.document());
        }
        let ActiveConfig {
            frameworks,
            extenders,
            plugin_tasks,
            ..
        } = *change.config;
        let ours_before: HashSet<BindingKey> = self
            .bindings
            .iter()
            .filter(|(_, binding)| self.frameworks.passes(binding))
            .map(|(key, _)| key.clone())
            .collect();
        let parked: Vec<BindingKey> = self.parked.keys().cloned().collect();
        for key in parked {
            self.drop_parked(&key, now);
        }
        let replaced = std::mem::replace(&mut self.frameworks, frameworks);
        let extenders = std::mem::replace(&mut self.answers.extenders, extenders);
        self.configurations.retire(replaced, extenders);
        self.plugin_tasks = plugin_tasks;
        if self.frameworks.assume_capacity() {
            self.book.enable_assumed_capacity();
        }
        for (_, binding) in self.bindings.iter() {
            self.notify_followers(binding);
        }
        let _ = change.applied.send(());
        self.requeue_after_change(&ours_before, now);
    }

    /// Activates waiting bindings. Queues the bindings that the new profiles schedule and the old profiles did not, and
    /// removes the bindings that only the old profiles scheduled.
    fn requeue_after_change(&mut self, ours_before: &HashSet<BindingKey>, now: Instant) {
        if !self.leading {
            return;
        }
        let waiting: Vec<BindingKey> = self.queue.delayed_keys().cloned().collect();
        for key in &waiting {
            self.queue.activate(key, now);
        }
        for (key, binding) in self.bindings.iter() {
            let ours = self.frameworks.passes(binding);
            if ours && !ours_before.contains(key) {
                self.queue.push(key, self.frameworks.rank(binding), now);
                self.metrics.incoming(Incoming::BindingAdd);
            } else if !ours && ours_before.contains(key) {
                self.queue.remove(key);
            }
        }
    }
}
