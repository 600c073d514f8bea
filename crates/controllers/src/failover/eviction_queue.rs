//! The queues of the bindings that wait for their eviction. The first added binding is evicted first.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use berth_api::{BindingKey, BindingKind};

use super::eviction_meter::EvictionMeter;
use super::rate_limiter::RateLimiter;
use crate::monitor::Monitor;

/// The kinds of eviction queues. As in Karmada, each kind of binding has its own rate limit for evictions by taints,
/// and unhealthy applications are evicted without a rate limit. Bindings that are rebalanced have the rate of evictions by
/// taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionQueueKind {
    Taint(BindingKind),
    Unhealthy,
    Rebalance,
}

impl EvictionQueueKind {
    pub(super) const ALL: [Self; 4] = [
        Self::Taint(BindingKind::Namespaced),
        Self::Taint(BindingKind::Cluster),
        Self::Unhealthy,
        Self::Rebalance,
    ];

    /// Returns the name of the queue in metrics. If Karmada has the same queue, the name is Karmada's.
    pub(super) fn metric_name(self) -> &'static str {
        match self {
            Self::Taint(BindingKind::Namespaced) => "binding-eviction",
            Self::Taint(BindingKind::Cluster) => "cluster-binding-eviction",
            Self::Unhealthy => "application-failover",
            Self::Rebalance => "rebalance",
        }
    }
}

/// The eviction queues of all kinds.
#[derive(Debug)]
pub(super) struct EvictionQueues {
    bindings: EvictionQueue,
    cluster_bindings: EvictionQueue,
    unhealthy: EvictionQueue,
    rebalance: EvictionQueue,
}

impl EvictionQueues {
    /// Returns empty queues. `interval` is the minimum interval between two evictions by taints.
    pub(super) fn new(interval: Duration, monitor: &Monitor) -> Self {
        let queue = |kind: EvictionQueueKind, interval| {
            let meter = EvictionMeter::new(kind.metric_name(), monitor.clone());
            EvictionQueue::new(RateLimiter::new(interval), meter)
        };
        let [namespaced, cluster, unhealthy, rebalance] = EvictionQueueKind::ALL;
        Self {
            bindings: queue(namespaced, interval),
            cluster_bindings: queue(cluster, interval),
            unhealthy: queue(unhealthy, Duration::ZERO),
            rebalance: queue(rebalance, interval),
        }
    }

    pub(super) fn of(&mut self, kind: EvictionQueueKind) -> &mut EvictionQueue {
        match kind {
            EvictionQueueKind::Taint(BindingKind::Namespaced) => &mut self.bindings,
            EvictionQueueKind::Taint(BindingKind::Cluster) => &mut self.cluster_bindings,
            EvictionQueueKind::Unhealthy => &mut self.unhealthy,
            EvictionQueueKind::Rebalance => &mut self.rebalance,
        }
    }

    /// Sets the minimum interval between two evictions by taints.
    pub(super) fn set_taint_interval(&mut self, interval: Duration) {
        for queue in [&mut self.bindings, &mut self.cluster_bindings] {
            queue.limiter.set_interval(interval);
        }
    }

    /// Returns the time at which the next binding may be evicted, or `None` if all queues are empty.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let queues = [
            &self.bindings,
            &self.cluster_bindings,
            &self.unhealthy,
            &self.rebalance,
        ];
        queues.iter().filter_map(|queue| queue.next_due(now)).min()
    }
}

/// A queue of bindings with a rate limit.
#[derive(Debug)]
pub(super) struct EvictionQueue {
    pub(super) limiter: RateLimiter,
    order: VecDeque<BindingKey>,
    queued: HashSet<BindingKey>,
    meter: EvictionMeter,
}

impl EvictionQueue {
    /// Returns an empty queue.
    pub(super) fn new(limiter: RateLimiter, meter: EvictionMeter) -> Self {
        Self {
            limiter,
            order: VecDeque::new(),
            queued: HashSet::new(),
            meter,
        }
    }

    /// Adds a binding if it is not queued. `kind` is the kind of the template. The binding will be evicted from
    /// `clusters`.
    pub(super) fn push(&mut self, key: &BindingKey, kind: String, clusters: Vec<String>) {
        if self.queued.insert(key.clone()) {
            self.order.push_back(key.clone());
            self.meter.added(key, kind, clusters);
        }
    }

    /// Removes and returns the first binding.
    pub(super) fn pop(&mut self) -> Option<BindingKey> {
        let key = self.order.pop_front()?;
        self.queued.remove(&key);
        self.meter.taken(&key);
        Some(key)
    }

    /// Returns the time at which the next binding may be evicted, or `None` if the queue is empty.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        (!self.order.is_empty()).then(|| self.limiter.next_allowed(now).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> BindingKey {
        BindingKey::new("n", name)
    }

    #[test]
    fn each_binding_is_returned_once_and_in_order() {
        let limiter = RateLimiter::new(Duration::from_secs(2));
        let meter = EvictionMeter::new("q", Monitor::default());
        let (mut queue, now) = (EvictionQueue::new(limiter, meter), Instant::now());
        assert_eq!(queue.next_due(now), None);
        for name in ["b", "a", "b"] {
            queue.push(&key(name), "Deployment".to_owned(), vec!["m1".to_owned()]);
        }
        assert_eq!(queue.next_due(now), Some(now));
        queue.limiter.record(now);
        assert_eq!(queue.next_due(now), Some(now + Duration::from_secs(2)));
        assert_eq!(queue.pop(), Some(key("b")));
        assert_eq!(queue.pop(), Some(key("a")));
        assert_eq!(queue.pop(), None);
    }
}
