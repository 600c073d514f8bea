//! Another configuration takes over while the service runs.

use std::time::Instant;

use super::Owner;
use crate::assume::Assumptions;
use crate::config::config_map::Change;
use crate::framework::assembly::Lineup;
use crate::metrics::Incoming;

impl Owner {
    /// The next decision is made by this configuration. Decisions that wait for a permit of the one before
    /// are given up and made again; writes that have begun end as they would have.
    pub(super) fn take_over(&mut self, Change { lineup, taken }: Change) {
        let now = Instant::now();
        let Lineup {
            frameworks,
            extenders,
            ends,
            ..
        } = *lineup;
        let ours_before: Vec<_> = self
            .bindings
            .iter()
            .filter(|(_, entry)| self.frameworks.passes(&entry.binding))
            .map(|(key, _)| key.clone())
            .collect();
        let parked: Vec<_> = self.parked.keys().cloned().collect();
        for key in parked {
            self.drop_parked(&key, now);
        }
        self.frameworks = frameworks;
        self.questions.extenders = extenders;
        self.plugin_tasks = ends;
        let assumes = self
            .frameworks
            .iter()
            .any(|framework| framework.assumes_capacity);
        if assumes && self.assumptions.is_none() {
            self.assumptions = Some(Assumptions::default());
        }
        for entry in self.bindings.values() {
            self.followed(&entry.binding);
        }
        let _ = taken.send(());
        self.look_again(&ours_before, now);
    }

    /// What waits may fit now, and what nobody was in charge of may be ours.
    fn look_again(&mut self, ours_before: &[crate::binding::BindingKey], now: Instant) {
        if !self.leading {
            return;
        }
        let asleep: Vec<_> = self.queue.sleepers().cloned().collect();
        for key in &asleep {
            self.queue.wake(key, now);
        }
        let ours_before: std::collections::HashSet<_> = ours_before.iter().collect();
        for (key, entry) in &self.bindings {
            let ours = self.frameworks.passes(&entry.binding);
            if ours && !ours_before.contains(key) {
                self.queue
                    .push(key, self.frameworks.rank(&entry.binding), now);
                self.metrics.incoming(Incoming::BindingAdd);
            } else if !ours && ours_before.contains(key) {
                self.queue.remove(key);
            }
        }
    }
}
