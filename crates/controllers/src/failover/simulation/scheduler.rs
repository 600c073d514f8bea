//! The scheduler of a simulation.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::STEP;
use super::fleet::{Fleet, name};
use super::workload::Workload;

impl Workload {
    /// Places what no cluster has: at home, or else where the fewest workloads of the same home live. Takes away what is
    /// too much.
    pub(super) fn schedule(&mut self, fleet: &Fleet, second: i64) {
        if (second / STEP) % self.shape.scheduler_period != 0 {
            return;
        }
        if !self.is_completely_placed() {
            let others = (0..fleet.len()).map(|step| (self.home * 7 + step * 13) % fleet.len());
            let order: Vec<usize> = std::iter::once(self.home)
                .chain(others)
                .chain(0..fleet.len())
                .collect();
            let targets = self.decided(&order, fleet);
            if targets != self.targets() {
                self.scheduled_at = Some(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second));
                self.place(&targets);
            }
        }
        if !self.is_scheduled {
            self.is_scheduled = true;
            self.show_status();
        }
    }

    /// Returns the clusters with which the placement is complete, if clusters fit. The first ones in the order that fit are
    /// added.
    fn decided(&self, order: &[usize], fleet: &Fleet) -> BTreeMap<usize, i64> {
        let mut targets = self.targets();
        let replicas = self.shape.replicas;
        let fits = |cluster: &&usize| {
            fleet.fits(**cluster) && !self.binding.has_task_for(&name(**cluster))
        };
        let mut fitting = order.iter().filter(fits);
        let Some(copies) = self.shape.copies else {
            let missing = replicas - targets.values().sum::<i64>();
            if missing > 0 {
                if let Some(cluster) = fitting.next() {
                    *targets.entry(*cluster).or_default() += missing;
                }
                return targets;
            }
            let mut surplus = -missing;
            for assigned in targets.values_mut().rev() {
                let taken = surplus.min(*assigned);
                *assigned -= taken;
                surplus -= taken;
            }
            targets.retain(|_, assigned| *assigned > 0);
            return targets;
        };
        for cluster in fitting {
            if targets.len() < copies {
                targets.entry(*cluster).or_default();
            }
        }
        while targets.len() > copies {
            targets.pop_last();
        }
        for assigned in targets.values_mut() {
            *assigned = replicas;
        }
        targets
    }

    /// Writes a decision.
    pub(super) fn place(&mut self, targets: &BTreeMap<usize, i64>) {
        let targets = targets
            .iter()
            .map(|(cluster, replicas)| json!({ "name": name(*cluster), "replicas": replicas }));
        let clusters: Vec<Value> = targets.collect();
        self.is_scheduled = true;
        self.write(&json!({ "spec": { "clusters": clusters } }));
    }

    /// Decides afresh, with the home cluster first.
    pub(super) fn return_home(&mut self, fleet: &Fleet, now: Timestamp) {
        let clusters: Vec<usize> = self.targets().into_keys().collect();
        let order: Vec<usize> = std::iter::once(self.home).chain(clusters).collect();
        self.move_to(&order, fleet, now);
    }

    /// Decides afresh: the first clusters in the order that fit get the workload. Reports whether it moves.
    pub(in crate::failover) fn move_to(
        &mut self,
        order: &[usize],
        fleet: &Fleet,
        now: Timestamp,
    ) -> bool {
        let former = self.targets();
        let clusters = std::mem::take(&mut self.binding.body.spec.clusters);
        let all: Vec<usize> = order.iter().copied().chain(0..fleet.len()).collect();
        let targets = self.decided(&all, fleet);
        self.binding.body.spec.clusters = clusters;
        if targets.is_empty() || targets == former {
            return false;
        }
        self.scheduled_at = Some(now);
        self.place(&targets);
        true
    }

    /// Moves the workload to other clusters because its policy changes. Reports whether it moves.
    pub(in crate::failover) fn move_home(
        &mut self,
        home: usize,
        fleet: &Fleet,
        now: Timestamp,
    ) -> bool {
        self.home = home;
        self.move_to(&[home], fleet, now)
    }
}
