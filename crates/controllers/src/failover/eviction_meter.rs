//! The metrics of one eviction queue.

use std::collections::HashMap;
use std::time::Instant;

use berth_api::BindingKey;

use crate::monitor::Monitor;
use crate::monitor::queue_meter::QueueMeter;

/// A binding in the queue.
#[derive(Debug)]
struct Queued {
    since: Instant,
    /// The kind of the template.
    kind: String,
    /// The clusters from which the binding is evicted.
    clusters: Vec<String>,
}

/// A meter that measures an eviction queue.
#[derive(Debug)]
pub(super) struct EvictionMeter {
    name: &'static str,
    monitor: Monitor,
    queue: QueueMeter,
    queued: HashMap<BindingKey, Queued>,
}

impl EvictionMeter {
    /// Returns a meter for an empty queue of this name.
    pub(super) fn new(name: &'static str, monitor: Monitor) -> Self {
        monitor.eviction_queue(name, 0);
        Self {
            name,
            queue: monitor.queue(name),
            monitor,
            queued: HashMap::new(),
        }
    }

    /// Counts a binding that entered the queue. `kind` is the kind of the template. The binding is evicted from
    /// `clusters`.
    pub(super) fn added(&mut self, key: &BindingKey, kind: String, clusters: Vec<String>) {
        for cluster in &clusters {
            self.monitor.awaiting_eviction(cluster, &kind, 1.0);
        }
        let queued = Queued {
            since: Instant::now(),
            kind,
            clusters,
        };
        self.queued.insert(key.clone(), queued);
        self.queue.added();
        self.monitor.eviction_queue(self.name, self.queued.len());
    }

    /// Counts a binding that left the queue.
    pub(super) fn taken(&mut self, key: &BindingKey) {
        let Some(queued) = self.queued.remove(key) else {
            return;
        };
        for cluster in &queued.clusters {
            self.monitor.awaiting_eviction(cluster, &queued.kind, -1.0);
        }
        self.queue.taken(queued.since.elapsed());
        self.monitor.eviction_queue(self.name, self.queued.len());
    }
}
