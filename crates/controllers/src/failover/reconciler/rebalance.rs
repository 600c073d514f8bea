//! The rebalancing of bindings: their writes, and the counts of pods on which they depend.

use std::time::Instant;

use berth_api::BindingKey;

use super::super::binding::BindingRecord;
use super::super::eviction_queue::EvictionQueueKind;
use super::super::options::RebalanceMode;
use super::super::pending_pods::{self, PendingPodsError};
use super::super::rebalancing::Rebalancing;
use super::super::writer::Announcement;
use super::{Examination, Failover, Outcome, SHORT_DELAY};
use crate::reconciler::Workers;

impl Failover {
    /// Rebalances a binding, or reports what would be done.
    pub(super) fn rebalance(
        &mut self,
        binding: BindingRecord,
        (rebalancing, patch): (Rebalancing, serde_json::Value),
        examination: Examination,
        now: Instant,
        workers: &mut Workers<Outcome>,
    ) {
        let Some(options) = &self.options.rebalance else {
            return;
        };
        let mode = options.mode;
        let key = binding.body.key.clone();
        if mode == RebalanceMode::DryRun {
            if self.announced.insert(key) {
                self.monitor
                    .rebalanced(rebalancing.cause(), mode.as_str(), 1);
                self.writer.would_rebalance(&binding, &rebalancing);
            }
            return;
        }
        let queue = EvictionQueueKind::Rebalance;
        if examination == Examination::Scheduled {
            let kind = binding.body.spec.resource.kind;
            self.queues.of(queue).push(&key, kind, Vec::new());
            return;
        }
        if let Rebalancing::MovePending(moves) = &rebalancing {
            for (cluster, _) in moves {
                self.trackers.pending.moved(&key, cluster, now);
            }
        }
        self.queues.of(queue).limiter.record(now);
        self.budget.record(now);
        let announcement = Announcement::Rebalanced(rebalancing);
        self.start(binding, patch, announcement, Some(queue), workers);
    }

    /// Counts the pods of a binding in a cluster that no node can run.
    pub(super) fn count_pods(
        &mut self,
        binding: &BindingRecord,
        cluster: String,
        workers: &mut Workers<Outcome>,
    ) {
        let key = binding.body.key.clone();
        if !workers.has_free() {
            self.trackers.pending.ask_again(&key, &cluster);
            self.schedule.add(key, Instant::now() + SHORT_DELAY);
            return;
        }
        let Some(record) = self.cache.clusters.get(&cluster) else {
            self.trackers.pending.counted(&key, &cluster, None);
            return;
        };
        let (client, record) = (self.writer.client.clone(), record.matched.clone());
        let resource = binding.body.spec.resource.clone();
        workers.start(async move {
            let count = pending_pods::count(&client, &record, &resource).await;
            Outcome::Pods {
                binding: key,
                cluster,
                count,
            }
        });
    }

    /// Logs that the pods of a workload cannot be counted: replicas that no node can run then do not move.
    pub(super) fn log_pod_count(
        &mut self,
        binding: &BindingKey,
        cluster: &str,
        count: &Result<i64, PendingPodsError>,
    ) {
        let now = Instant::now();
        let Err(error) = count else {
            self.pod_failure.succeeded_for_one(now);
            return;
        };
        let message = error.to_string();
        if let Some(line) = self.pod_failure.failed(&message, now) {
            tracing::warn!(
                %binding,
                cluster,
                error = %message,
                repeated = line.repeated,
                "cannot count the pods that no node can run, so that they do not move: check the right to list pods in the member"
            );
        }
    }
}
