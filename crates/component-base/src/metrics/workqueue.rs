//! Metrics of work queues, with the names of client-go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_metrics::{ConstCounter, ConstGauge, Histogram, Registry, Series, exponential};

const BOUNDS: [f64; 12] = exponential(10e-9, 10.0);

/// The identifier of an item in processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The metrics of a queue.
#[derive(Debug)]
pub struct WorkQueue {
    depth: usize,
    /// The number of items that left the queue.
    removed: u64,
    retries: u64,
    waited: Histogram,
    worked: Histogram,
    /// The items in processing, with their start times.
    in_progress: BTreeMap<Ticket, Instant>,
    tickets: u64,
}

impl Default for WorkQueue {
    fn default() -> Self {
        Self {
            depth: 0,
            removed: 0,
            retries: 0,
            waited: Histogram::new(BOUNDS),
            worked: Histogram::new(BOUNDS),
            in_progress: BTreeMap::new(),
            tickets: 0,
        }
    }
}

impl WorkQueue {
    /// Counts an item that entered the queue.
    pub fn added(&mut self) {
        self.depth += 1;
    }

    /// Sets the number of items in the queue.
    pub fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// Counts an item that was taken from the queue. `waited` is the time that the item spent in the queue.
    pub fn taken(&mut self, waited: Duration) {
        self.dropped(1);
        self.waited.observe(waited.as_secs_f64());
    }

    /// Counts items that left the queue without being processed.
    pub fn dropped(&mut self, items: usize) {
        self.depth = self.depth.saturating_sub(items);
        self.removed += items as u64;
    }

    /// Marks the start of the processing of an item.
    pub fn started(&mut self, now: Instant) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.in_progress.insert(ticket, now);
        ticket
    }

    /// Marks the end of the processing of an item.
    pub fn ended(&mut self, ticket: Ticket, now: Instant) {
        if let Some(since) = self.in_progress.remove(&ticket) {
            let worked = now.saturating_duration_since(since);
            self.worked.observe(worked.as_secs_f64());
        }
    }

    /// Marks the end of an abandoned processing. The duration of this processing is not counted.
    pub fn abandoned(&mut self, ticket: Ticket) {
        self.in_progress.remove(&ticket);
    }

    /// Counts an item that returns to the queue after a delay.
    pub fn retried(&mut self) {
        self.retries += 1;
    }

    fn ages(&self, now: Instant) -> impl Iterator<Item = Duration> {
        let since = self.in_progress.values();
        since.map(move |since| now.saturating_duration_since(*since))
    }
}

/// The labels of a queue. Both values are its name.
type Labels = [(&'static str, &'static str); 2];

/// Registers the metrics of queues. Each queue is given with its name.
pub fn register(registry: &mut Registry, queues: &[(&'static str, &WorkQueue)], now: Instant) {
    registry.register(
        "workqueue_adds_total",
        "Total number of adds handled by workqueue",
        series(queues, |queue| {
            ConstCounter::new(queue.removed.saturating_add(queue.depth as u64))
        }),
    );
    let depths = queues.iter().map(|(name, queue)| {
        let labels = (labels(name), [("priority", "")]);
        (labels, ConstGauge::new(queue.depth))
    });
    registry.register(
        "workqueue_depth",
        "Current depth of workqueue by workqueue and priority",
        Series::new(depths),
    );
    registry.register(
        "workqueue_longest_running_processor_seconds",
        "How long in seconds the longest running processor for workqueue has been running.",
        series(queues, |queue| {
            seconds(queue.ages(now).max().unwrap_or_default())
        }),
    );
    registry.register(
        "workqueue_queue_duration_seconds",
        "How long in seconds an item stays in workqueue before being requested",
        series(queues, |queue| queue.waited.clone()),
    );
    registry.register(
        "workqueue_retries_total",
        "Total number of retries handled by workqueue",
        series(queues, |queue| ConstCounter::new(queue.retries)),
    );
    registry.register(
        "workqueue_unfinished_work_seconds",
        "Total time in seconds of the keys in progress, which work_duration has not observed yet.",
        series(queues, |queue| seconds(queue.ages(now).sum())),
    );
    registry.register(
        "workqueue_work_duration_seconds",
        "How long in seconds processing an item from workqueue takes.",
        series(queues, |queue| queue.worked.clone()),
    );
}

fn labels(name: &'static str) -> Labels {
    [("controller", name), ("name", name)]
}

fn series<M>(
    queues: &[(&'static str, &WorkQueue)],
    metric: impl Fn(&WorkQueue) -> M,
) -> Series<Labels, M> {
    let queues = queues.iter();
    Series::new(queues.map(|(name, queue)| (labels(name), metric(queue))))
}

fn seconds(duration: Duration) -> ConstGauge<f64> {
    ConstGauge::new(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use berth_metrics::Format;

    use super::*;

    #[test]
    fn queues_are_written_as_by_client_go() {
        let (mut queue, start) = (WorkQueue::default(), Instant::now());
        for _ in 0..4 {
            queue.added();
        }
        queue.taken(Duration::from_millis(5));
        queue.dropped(1);
        let ended = queue.started(start);
        queue.ended(ended, start + Duration::from_secs(3));
        for seconds in [1, 2] {
            queue.started(start + Duration::from_secs(seconds));
        }
        let abandoned = queue.started(start);
        queue.abandoned(abandoned);
        queue.retried();
        let other = WorkQueue::default();
        let queues = [("a", &queue), ("b", &other)];
        let out = Format::Text.render(|registry| {
            register(registry, &queues, start + Duration::from_secs(5));
        });
        for expected in [
            r#"workqueue_adds_total{controller="a",name="a"} 4"#,
            r#"workqueue_depth{controller="a",name="a",priority=""} 2"#,
            r#"workqueue_depth{controller="b",name="b",priority=""} 0"#,
            r#"workqueue_longest_running_processor_seconds{controller="a",name="a"} 4"#,
            r#"workqueue_unfinished_work_seconds{controller="a",name="a"} 7"#,
            r#"workqueue_queue_duration_seconds_count{controller="a",name="a"} 1"#,
            r#"workqueue_work_duration_seconds_sum{controller="a",name="a"} 3"#,
            r#"workqueue_retries_total{controller="a",name="a"} 1"#,
        ] {
            assert!(
                out.lines().any(|line| line == expected),
                "{expected}\n{out}"
            );
        }
        assert_eq!(out.matches("# TYPE workqueue_depth gauge").count(), 1);
    }
}
