//! The effects of the brake: the rate of the evictions, the metric, one line of the log, and the conditions of Clusters.

use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use std::time::Instant;

use super::super::brake::{Brake, Readiness};
use super::super::cluster::ClusterRecord;
use super::super::rate_limiter::interval;
use super::{Failover, Outcome};
use crate::reconciler::Workers;

impl Failover {
    /// Updates the brake after a change of a Cluster. When it changes, the evictions from clusters that are not ready are
    /// decided again.
    pub(super) fn update_brake(&mut self, now: Instant) {
        let clusters = self.cache.clusters.values().map(ClusterRecord::readiness);
        let was_engaged = self.brake.get().is_engaged();
        // Without evictions by taints, there is nothing to hold back.
        let present = match &self.options.taint_eviction {
            Some(_) => Brake::of(clusters, self.options.brake),
            None => Brake::Released,
        };
        self.brake.update(present, self.options.brake.hold, now);
        let brake = self.brake.get();
        self.may_show_wrong_brake = true;
        if brake.is_engaged() == was_engaged {
            return;
        }
        self.monitor.evictions_paused(brake.is_engaged());
        let usual = self.options.taint_eviction.as_ref();
        let usual = usual.map_or(0.0, |taints| taints.rate);
        // A brake that stops leaves the rate for clusters that are ready.
        let is_slow = brake.is_engaged() && !brake.stops(self.options.brake);
        let rate = if is_slow {
            self.options.brake.rate
        } else {
            usual
        };
        self.queues.set_taint_interval(interval(rate));
        if let Some(message) = brake.message(self.options.brake) {
            tracing::warn!("{message}");
        } else {
            tracing::info!("evictions from clusters that are not ready go on");
            for key in self.cache.bindings.keys() {
                self.schedule.add(key.clone(), now);
            }
        }
    }

    /// Writes the condition of the Clusters that differ from the brake.
    pub(super) fn show_brake(&mut self, workers: &mut Workers<Outcome>) {
        if !std::mem::take(&mut self.may_show_wrong_brake) {
            return;
        }
        for (name, cluster) in &self.cache.clusters {
            let is_paused = self.brake.get().is_engaged()
                && matches!(cluster.readiness(), Readiness::NotReadySince(_));
            if is_paused == cluster.shows_brake {
                continue;
            }
            if !workers.has_free() {
                self.may_show_wrong_brake = true;
                return;
            }
            if !self.busy_clusters.insert(name.clone()) {
                continue;
            }
            let message = self.brake.get().message(self.options.brake);
            let message = message.filter(|_| is_paused);
            let (writer, name) = (self.writer.clone(), name.clone());
            workers.start(async move {
                let written = writer.show_brake(&name, message.as_deref()).await;
                Outcome::Cluster { name, written }
            });
        }
    }

    /// Logs a failed write of a condition. The client logs outages of the control plane.
    pub(super) fn log_brake_write(&mut self, cluster: &str, written: Result<(), kube::Error>) {
        let now = Instant::now();
        let Err(error) = written else {
            self.brake_failure.succeeded_for_one(now);
            return;
        };
        let message = api_error_message(&error);
        let line = if is_unreachable(&error) {
            None
        } else {
            self.brake_failure.failed(&message, now)
        };
        if let Some(line) = line {
            tracing::warn!(
                cluster,
                error = %message,
                repeated = line.repeated,
                "cannot show on a Cluster that evictions are paused: check the right to patch clusters/status"
            );
        }
    }
}
