//! The queue of keys to reconcile. A key is queued at most once, never runs twice at the same time, and is queued again
//! after a failure.
//!
//! Keys changed by users have a higher priority than keys changed by policies, so that an edit of a policy with
//! thousands of templates does not delay a user's deployment.

mod pace;

use berth_apimachinery::api_error::{api_error_message, is_stale, is_unreachable};
use berth_apimachinery::repeated_failure::RepeatedFailure;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fmt::{self, Display};
use std::hash::Hash;
use std::time::Duration;

use berth_component_base::metrics::workqueue::Ticket;
use tokio::time::Instant;

use self::pace::Pace;
use super::log_key::{KeyText, LogKey};
use crate::monitor::queue_meter::QueueMeter;

/// The default delay after the first failure. Each further failure in a row doubles the delay.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The default maximum delay after a failure.
const LONGEST_DELAY: Duration = Duration::from_secs(1000);
/// An object without changes for this time has settled.
const QUIET: Duration = Duration::from_millis(100);

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The key is returned before all keys with a low priority.
    High,
    /// The key is returned after all keys with a high priority.
    Low,
}

/// The reason for which a key is queued.
pub(crate) trait Reason {
    /// Merges another reason into this reason.
    fn merge(&mut self, other: Self);
}

impl Reason for () {
    fn merge(&mut self, (): Self) {}
}

/// A queue that delays keys.
pub(crate) trait Timers {
    /// Returns the time at which the next delayed key is due.
    fn next_due(&self) -> Option<Instant>;

    /// Queues the delayed keys that are due.
    fn requeue_due(&mut self);
}

/// An error after which a key is reconciled again.
pub(crate) trait RetryableError: Display {
    /// Reports whether the write failed because another client changed the object after it was read.
    fn is_stale(&self) -> bool;

    /// Reports whether the server sent no response. The HTTP client logs such an outage.
    fn is_outage(&self) -> bool;

    /// Returns the message for the log.
    fn message(&self) -> String {
        self.to_string()
    }
}

/// The message of an error, which is formatted only for a line that is written.
struct ErrorText<'a, E>(&'a E);

impl<E: RetryableError> Display for ErrorText<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message())
    }
}

impl RetryableError for kube::Error {
    fn is_stale(&self) -> bool {
        is_stale(self)
    }

    fn is_outage(&self) -> bool {
        is_unreachable(self)
    }

    fn message(&self) -> String {
        api_error_message(self)
    }
}

/// The delay of a key whose object settles.
#[derive(Clone, Copy, Debug)]
struct Settling {
    /// The time at which the key is queued at the latest.
    end: Instant,
    /// The number of the key in `delayed`.
    number: u64,
}

/// A queue of keys, each with its merged reasons.
#[derive(Debug)]
pub(crate) struct WorkQueue<K, R> {
    /// The queued keys, each with the time at which it was queued.
    waiting: HashMap<K, (R, Instant)>,
    /// The order of the queued keys with a high priority.
    high: VecDeque<K>,
    /// The order of the queued keys with a low priority.
    low: VecDeque<K>,
    /// The running keys, each with the start of the run.
    running: HashMap<K, (Ticket, Instant)>,
    pace: Pace,
    failures: HashMap<K, u32>,
    /// Due times of the delayed keys, each with its number in `delayed`.
    due_times: BinaryHeap<Reverse<(Instant, u64)>>,
    delayed: HashMap<u64, (K, R)>,
    /// Keys delayed by [`Self::push_settled`] or [`Self::wait`].
    settling: HashMap<K, Settling>,
    /// Keys whose last run ended with [`Self::wait`], each with the time at which it may no longer wait.
    waits: HashMap<K, Instant>,
    last_delay_number: u64,
    first_delay: Duration,
    longest_delay: Duration,
    meter: QueueMeter,
    /// Limits the log lines about failed runs.
    failure_log: RepeatedFailure,
}

impl<K, R> Default for WorkQueue<K, R> {
    fn default() -> Self {
        Self::with_retry_delays(FIRST_DELAY, LONGEST_DELAY)
    }
}

impl<K, R> WorkQueue<K, R> {
    /// Returns an empty queue with a maximum retry delay.
    pub(crate) fn with_longest_delay(longest: Duration) -> Self {
        Self::with_retry_delays(FIRST_DELAY, longest)
    }

    /// Returns an empty queue with a first and a maximum retry delay.
    pub(crate) fn with_retry_delays(first: Duration, longest: Duration) -> Self {
        Self {
            waiting: HashMap::new(),
            high: VecDeque::new(),
            low: VecDeque::new(),
            running: HashMap::new(),
            pace: Pace::default(),
            failures: HashMap::new(),
            due_times: BinaryHeap::new(),
            delayed: HashMap::new(),
            settling: HashMap::new(),
            waits: HashMap::new(),
            last_delay_number: 0,
            first_delay: first,
            longest_delay: longest,
            meter: QueueMeter::default(),
            failure_log: RepeatedFailure::default(),
        }
    }

    /// Sets the meter that measures the queue. The queue must be empty.
    pub(crate) fn metered(mut self, meter: QueueMeter) -> Self {
        self.meter = meter;
        self
    }
}

impl<K: Clone + Eq + Hash, R: Reason> WorkQueue<K, R> {
    /// Queues a key. If the key is already queued, the reasons are merged.
    pub(crate) fn push(&mut self, key: K, reason: R, priority: Priority) {
        if let Some((known, _)) = self.waiting.get_mut(&key) {
            known.merge(reason);
        } else {
            self.waiting.insert(key.clone(), (reason, Instant::now()));
            self.meter.added();
        }
        // The lists may contain a key several times. `next` skips all entries of the key except the first.
        match priority {
            Priority::High => self.high.push_back(key),
            Priority::Low => self.low.push_back(key),
        }
    }

    /// Removes and returns the next key that is not running, with its merged reasons.
    pub(crate) fn next(&mut self) -> Option<(K, R)> {
        for keys in [&mut self.high, &mut self.low] {
            while let Some(key) = keys.pop_front() {
                // `end` queues a waiting key again when its run ends.
                if !self.running.contains_key(&key)
                    && let Some((reason, since)) = self.waiting.remove(&key)
                {
                    self.meter.taken(since.elapsed());
                    // This run also handles the changes whose settling was awaited.
                    if let Some(settling) = self.settling.remove(&key) {
                        self.delayed.remove(&settling.number);
                    }
                    return Some((key, reason));
                }
            }
        }
        None
    }

    /// Marks a key as running. [`Self::next`] does not return the key until its run ends.
    pub(crate) fn start(&mut self, key: K) {
        let ticket = self.meter.started();
        let run = (ticket, Instant::now());
        if let Some((unfinished, _)) = self.running.insert(key, run) {
            self.meter.ended(unfinished);
        }
    }

    /// Reports whether a key is running.
    pub(crate) fn is_running(&self, key: &K) -> bool {
        self.running.contains_key(key)
    }

    /// Ends a successful run of a key.
    pub(crate) fn finish(&mut self, key: &K) {
        let had_failed = self.failures.remove(key).is_some();
        if had_failed && self.failures.is_empty() {
            self.log_recovery();
        }
        self.waits.remove(key);
        self.end(key);
    }

    /// Logs that no failed key is left, if failures were logged.
    fn log_recovery(&mut self) {
        if let Some(end) = self.failure_log.ended(Instant::now().into_std()) {
            let (controller, failures) = (self.meter.name(), end.failures);
            tracing::info!(
                controller,
                failures,
                "all failed requests of this controller have succeeded after {}",
                end.lasted
            );
        }
    }

    /// Ends a run of a key before its result is known. The failures of earlier runs remain counted.
    pub(crate) fn release(&mut self, key: &K) {
        self.end(key);
    }

    /// Ends a failed run of a key, and queues the key again after a delay. Returns the number of failures in a row.
    pub(crate) fn fail(&mut self, key: &K, reason: R) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        let factor = 1_u32.checked_shl(*failures).unwrap_or(u32::MAX);
        let delay = self.first_delay.saturating_mul(factor);
        let delay = delay.min(self.longest_delay);
        *failures = failures.saturating_add(1);
        let failures = *failures;
        self.meter.retried();
        self.waits.remove(key);
        self.delay(key.clone(), reason, delay);
        self.end(key);
        failures
    }

    /// Ends a failed run of a key as [`Self::fail`] does, and logs the error.
    pub(crate) fn retry(&mut self, key: &K, reason: R, error: &impl RetryableError)
    where
        K: LogKey,
    {
        let failures = self.fail(key, reason);
        if error.is_stale() {
            let (key, error) = (KeyText(key), ErrorText(error));
            tracing::debug!(%key, failures, %error, "object changed meanwhile, trying again");
        } else if error.is_outage() {
            let (key, error) = (KeyText(key), ErrorText(error));
            tracing::debug!(%key, failures, %error, "no response, trying again");
        } else {
            self.log_failure(key, failures, &error.message());
        }
    }

    /// Logs a failed run that does not end by itself soon. Limits the lines about repeated failures, and counts the keys
    /// that fail, because most of them get no line.
    pub(crate) fn log_failure(&mut self, key: &K, failures: u32, error: &str)
    where
        K: LogKey,
    {
        let now = Instant::now().into_std();
        let (key, line) = (KeyText(key), self.failure_log.failed(error, now));
        if let Some(line) = line {
            let (controller, repeated) = (self.meter.name(), line.repeated);
            let failing_keys = self.failures.len();
            tracing::warn!(
                controller,
                %key,
                failures,
                %error,
                repeated,
                failing_keys,
                "request failed, trying again later"
            );
        } else {
            tracing::debug!(%key, failures, %error, "request failed, trying again later");
        }
    }

    fn delay(&mut self, key: K, reason: R, delay: Duration) {
        self.delay_until(Instant::now() + delay, key, reason);
    }

    /// Delays a key. Returns its number in `delayed`.
    fn delay_until(&mut self, due: Instant, key: K, reason: R) -> u64 {
        self.last_delay_number += 1;
        self.due_times.push(Reverse((due, self.last_delay_number)));
        self.delayed.insert(self.last_delay_number, (key, reason));
        self.last_delay_number
    }

    fn end(&mut self, key: &K) {
        if let Some((ticket, since)) = self.running.remove(key) {
            self.pace.record(since.elapsed());
            self.meter.ended(ticket);
        }
        if self.waiting.contains_key(key) {
            self.high.push_back(key.clone());
        }
    }

    fn take_due(&mut self, now: Instant) -> Option<(K, R)> {
        loop {
            let Reverse((due, number)) = *self.due_times.peek()?;
            if due > now {
                return None;
            }
            self.due_times.pop();
            // A later change may have postponed this delay.
            if let Some((key, reason)) = self.delayed.remove(&number) {
                if self
                    .settling
                    .get(&key)
                    .is_some_and(|settling| settling.number == number)
                {
                    self.settling.remove(&key);
                }
                return Some((key, reason));
            }
        }
    }
}

impl<K: Clone + Eq + Hash, R: Reason> Timers for WorkQueue<K, R> {
    fn next_due(&self) -> Option<Instant> {
        self.due_times.peek().map(|Reverse((due, _))| *due)
    }

    /// Queues the delayed keys that are due. They get a low priority.
    fn requeue_due(&mut self) {
        let now = Instant::now();
        while let Some((key, reason)) = self.take_due(now) {
            self.push(key, reason, Priority::Low);
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K, ()> {
    /// Queues a key once its object has settled, so that several changes cause one run: after [`QUIET`] without a further
    /// call for the key, and at the latest after the longest wait of the queue's [`Pace`]. Does nothing if the key is
    /// already queued.
    pub(crate) fn push_settled(&mut self, key: K) {
        if self.waiting.contains_key(&key) {
            return;
        }
        let now = Instant::now();
        let end = match self.settling.get(&key) {
            Some(settling) => {
                self.delayed.remove(&settling.number);
                settling.end
            }
            None => now + self.pace.longest_wait(),
        };
        self.settle(key, end.min(now + QUIET), end);
    }

    /// Reports whether a run of a key may end with [`Self::wait`]. It may not once the longest wait has passed since the
    /// first of several such runs.
    pub(crate) fn may_wait(&self, key: &K) -> bool {
        self.waits.get(key).is_none_or(|end| Instant::now() < *end)
    }

    /// Ends a run of a key without a result, because its object is known to change soon. The next run comes after the
    /// change, of which [`Self::push_settled`] tells, or when the key may no longer wait.
    pub(crate) fn wait(&mut self, key: &K) {
        let end = Instant::now() + self.pace.longest_wait();
        let end = *self.waits.entry(key.clone()).or_insert(end);
        if !self.waiting.contains_key(key) && !self.settling.contains_key(key) {
            self.settle(key.clone(), end, end);
        }
        self.failures.remove(key);
        self.end(key);
    }

    fn settle(&mut self, key: K, due: Instant, end: Instant) {
        let number = self.delay_until(due, key.clone(), ());
        self.settling.insert(key, Settling { end, number });
    }

    /// Queues a key at the time `due`.
    pub(crate) fn push_at(&mut self, key: K, due: Instant) {
        self.delay(key, (), due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::pace::SHORTEST;
    use super::*;
    use crate::monitor::Monitor;

    impl Reason for Vec<u32> {
        fn merge(&mut self, other: Self) {
            self.extend(other);
        }
    }

    fn push(
        queue: &mut WorkQueue<&'static str, Vec<u32>>,
        key: &'static str,
        reason: u32,
        priority: Priority,
    ) {
        queue.push(key, vec![reason], priority);
    }

    #[test]
    fn reasons_of_one_key_are_merged_and_keys_with_a_high_priority_come_first() {
        let mut queue = WorkQueue::default();
        push(&mut queue, "a", 1, Priority::Low);
        push(&mut queue, "b", 2, Priority::Low);
        push(&mut queue, "b", 3, Priority::High);
        assert_eq!(queue.next(), Some(("b", vec![2, 3])));
        assert_eq!(queue.next(), Some(("a", vec![1])));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_key_is_not_returned_while_it_runs() {
        let mut queue = WorkQueue::default();
        push(&mut queue, "a", 1, Priority::High);
        assert_eq!(queue.next(), Some(("a", vec![1])));
        queue.start("a");
        push(&mut queue, "a", 2, Priority::High);
        assert_eq!(queue.next(), None);
        queue.finish(&"a");
        assert_eq!(queue.next(), Some(("a", vec![2])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_after_its_object_has_settled() {
        let mut queue: WorkQueue<&str, ()> = WorkQueue::default();
        let start = Instant::now();
        for _ in 0..5 {
            queue.push_settled("a");
            tokio::time::advance(QUIET / 2).await;
            assert_eq!(queue.take_due(Instant::now()), None);
        }
        tokio::time::advance(QUIET / 2).await;
        let now = Instant::now();
        assert_eq!(now.duration_since(start), QUIET * 3);
        assert_eq!(queue.take_due(now), Some(("a", ())));
        assert_eq!(queue.take_due(now), None);
        // A key that is already queued is not delayed in addition.
        queue.push("a", (), Priority::Low);
        queue.push_settled("a");
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_without_rest_is_queued_in_time() {
        let mut queue: WorkQueue<&str, ()> = WorkQueue::default();
        let start = Instant::now();
        while queue.take_due(Instant::now()).is_none() {
            queue.push_settled("a");
            tokio::time::advance(QUIET / 4).await;
        }
        assert_eq!(start.elapsed(), SHORTEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_handles_the_changes_that_were_settling() {
        let mut queue: WorkQueue<&str, ()> = WorkQueue::default();
        queue.push_settled("a");
        queue.push("a", (), Priority::High);
        assert_eq!(queue.next(), Some(("a", ())));
        tokio::time::advance(SHORTEST).await;
        assert_eq!(queue.take_due(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_for_a_change_that_is_known_to_come_but_not_for_ever() {
        let mut queue: WorkQueue<&str, ()> = WorkQueue::default();
        let start = Instant::now();
        queue.wait(&"a");
        tokio::time::advance(QUIET).await;
        queue.push_settled("a");
        tokio::time::advance(QUIET).await;
        queue.requeue_due();
        assert_eq!(queue.next(), Some(("a", ())), "after the change");
        assert!(queue.may_wait(&"a"));
        queue.wait(&"a");
        tokio::time::advance(SHORTEST.saturating_sub(QUIET * 2)).await;
        queue.requeue_due();
        assert_eq!(queue.next(), Some(("a", ())), "without another change");
        assert_eq!(start.elapsed(), SHORTEST);
        assert!(!queue.may_wait(&"a"));
        queue.finish(&"a");
        assert!(queue.may_wait(&"a"));
        assert_eq!(queue.next_due(), None);
    }

    /// A writer that collects log output.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_about_failures_names_the_controller_and_counts_the_keys() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let meter = Monitor::default().queue("binding-controller");
        let mut queue: WorkQueue<&str, ()> = WorkQueue::default().metered(meter);
        let pauses = [Duration::ZERO, Duration::ZERO, Duration::from_secs(10)];
        for (key, pause) in ["a", "b", "c"].into_iter().zip(pauses) {
            tokio::time::advance(pause).await;
            queue.start(key);
            let failures = queue.fail(&key, ());
            queue.log_failure(&key, failures, "refused");
        }
        for key in ["a", "b", "c"] {
            queue.finish(&key);
        }
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        let named = |line: &&str| line.contains(r#"controller="binding-controller""#);
        assert!(lines.iter().all(named), "{log}");
        assert!(lines[0].contains("key=a ") && lines[0].contains("failing_keys=1"));
        assert!(lines[1].contains("key=c ") && lines[1].contains("repeated=2 failing_keys=3"));
        assert!(lines[2].contains("failures=3"), "{log}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_doubles_with_each_failure_until_a_success() {
        let mut queue: WorkQueue<&str, Vec<u32>> = WorkQueue::default();
        let start = Instant::now();
        let mut delays = Vec::new();
        for _ in 0..3 {
            queue.start("a");
            queue.fail(&"a", vec![]);
            let due = queue.next_due().unwrap();
            assert_eq!(queue.take_due(start), None);
            assert!(queue.take_due(due).is_some());
            delays.push(due.duration_since(start).as_millis());
        }
        assert_eq!(delays, [5, 10, 20]);
        queue.release(&"a");
        assert_eq!(queue.fail(&"a", vec![]), 4);
        let due = queue.next_due().unwrap();
        assert_eq!(due.duration_since(start).as_millis(), 40);
        queue.take_due(due);
        queue.finish(&"a");
        queue.fail(&"a", vec![]);
        assert_eq!(
            queue.next_due().unwrap().duration_since(start).as_millis(),
            5
        );
        for _ in 0..40 {
            queue.fail(&"b", vec![]);
        }
        let latest = queue.due_times.iter().map(|Reverse((due, _))| *due).max();
        assert_eq!(latest, Some(start + LONGEST_DELAY));
    }
}
