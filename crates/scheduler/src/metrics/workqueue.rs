//! Metrics of the scheduling queue, with the names of Kubernetes' workqueue metrics.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::BindingKey;
use berth_component_base::metrics::workqueue::{self, Ticket};
use berth_metrics::Registry;

/// The name that Karmada uses for its queue of bindings.
const NAME: &str = "scheduler-queue";

/// Counters and durations of the scheduling queue.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    queue: workqueue::WorkQueue,
    in_progress: HashMap<BindingKey, Ticket>,
}

impl WorkQueue {
    pub(super) fn set_depth(&mut self, ready: usize) {
        self.queue.set_depth(ready);
    }

    pub(super) fn taken(&mut self, key: &BindingKey, waited: Duration, now: Instant) {
        self.queue.taken(waited);
        let ticket = self.queue.started(now);
        if let Some(unfinished) = self.in_progress.insert(key.clone(), ticket) {
            self.queue.abandoned(unfinished);
        }
    }

    pub(super) fn ended(&mut self, key: &BindingKey, retried: bool, now: Instant) {
        if retried {
            self.queue.retried();
        }
        if let Some(ticket) = self.in_progress.remove(key) {
            self.queue.ended(ticket, now);
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        workqueue::register(registry, &[(NAME, &self.queue)], Instant::now());
    }
}
