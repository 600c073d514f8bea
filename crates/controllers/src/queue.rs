//! What is to be looked at next: each key once, never two at a time, and again later after a failure.
//!
//! Two lanes: what users changed goes before what policies changed, so that an administrator's edit of a
//! policy that holds thousands of templates delays nobody's deployment.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The delay after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(1000);

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Before the others.
    Fast,
    /// After the others.
    Slow,
}

/// A queue of keys, each with the merged reasons for which it waits.
#[derive(Debug)]
pub(crate) struct Queue<K, R> {
    waiting: HashMap<K, R>,
    fast: VecDeque<K>,
    slow: VecDeque<K>,
    running: HashSet<K>,
    failures: HashMap<K, u32>,
    later: BinaryHeap<Reverse<(Instant, u64)>>,
    delayed: HashMap<u64, (K, R)>,
    /// Keys that are delayed so that more may come to it.
    gathering: HashSet<K>,
    tickets: u64,
    longest_delay: Duration,
}

impl<K, R> Default for Queue<K, R> {
    fn default() -> Self {
        Self::with_longest_delay(LONGEST_DELAY)
    }
}

impl<K, R> Queue<K, R> {
    /// An empty queue in which failures are never delayed for longer.
    pub(crate) fn with_longest_delay(longest_delay: Duration) -> Self {
        Self {
            waiting: HashMap::new(),
            fast: VecDeque::new(),
            slow: VecDeque::new(),
            running: HashSet::new(),
            failures: HashMap::new(),
            later: BinaryHeap::new(),
            delayed: HashMap::new(),
            gathering: HashSet::new(),
            tickets: 0,
            longest_delay,
        }
    }
}

impl<K: Clone + Eq + Hash, R> Queue<K, R> {
    /// Adds a key; `merge` adds the reason to one that waits already.
    pub(crate) fn add(&mut self, key: K, reason: R, lane: Lane, merge: impl FnOnce(&mut R, R)) {
        if let Some(known) = self.waiting.get_mut(&key) {
            merge(known, reason);
        } else {
            self.waiting.insert(key.clone(), reason);
        }
        // A key may stand in both lanes; the second time it is no longer waiting.
        match lane {
            Lane::Fast => self.fast.push_back(key),
            Lane::Slow => self.slow.push_back(key),
        }
    }

    /// The next key that is not being worked on, with its reasons.
    pub(crate) fn next(&mut self) -> Option<(K, R)> {
        for lane in [&mut self.fast, &mut self.slow] {
            while let Some(key) = lane.pop_front() {
                // A key that is being worked on is queued again when that is done.
                if !self.running.contains(&key)
                    && let Some(reason) = self.waiting.remove(&key)
                {
                    return Some((key, reason));
                }
            }
        }
        None
    }

    /// Work on a key begins: it is not handed out until it is finished.
    pub(crate) fn start(&mut self, key: K) {
        self.running.insert(key);
    }

    /// Whether a key is being worked on.
    pub(crate) fn is_running(&self, key: &K) -> bool {
        self.running.contains(key)
    }

    /// Work on a key has ended well.
    pub(crate) fn finish(&mut self, key: &K) {
        self.failures.remove(key);
        self.end(key);
    }

    /// Work on a key has ended, and it is not known yet whether well: its failures still count.
    pub(crate) fn release(&mut self, key: &K) {
        self.end(key);
    }

    /// Work on a key has failed: it comes back later. Returns the number of failures in a row.
    pub(crate) fn fail(&mut self, key: &K, reason: R) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = delay_after(*failures).min(self.longest_delay);
        *failures = failures.saturating_add(1);
        let failures = *failures;
        self.delay(key.clone(), reason, delay);
        self.end(key);
        failures
    }

    fn delay(&mut self, key: K, reason: R, delay: Duration) {
        self.tickets += 1;
        let due = Instant::now() + delay;
        self.later.push(Reverse((due, self.tickets)));
        self.delayed.insert(self.tickets, (key, reason));
    }

    fn end(&mut self, key: &K) {
        self.running.remove(key);
        if self.waiting.contains_key(key) {
            self.fast.push_back(key.clone());
        }
    }

    /// When the next delayed key comes back.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse((due, _))| *due)
    }

    /// A delayed key whose time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(K, R)> {
        let Reverse((due, ticket)) = *self.later.peek()?;
        if due > now {
            return None;
        }
        self.later.pop();
        let (key, reason) = self.delayed.remove(&ticket)?;
        self.gathering.remove(&key);
        Some((key, reason))
    }
}

impl<K: Clone + Eq + Hash> Queue<K, ()> {
    /// Adds a key a little later: what happens to it until then is looked at together.
    pub(crate) fn gather(&mut self, key: K, delay: Duration) {
        if !self.waiting.contains_key(&key) && self.gathering.insert(key.clone()) {
            self.delay(key, (), delay);
        }
    }
}

fn delay_after(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

/// Waits until a moment; for ever, where there is none.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(queue: &mut Queue<&'static str, Vec<u32>>, key: &'static str, reason: u32, lane: Lane) {
        queue.add(key, vec![reason], lane, Extend::extend);
    }

    #[test]
    fn reasons_of_one_key_merge_and_the_fast_lane_goes_first() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 1, Lane::Slow);
        add(&mut queue, "b", 2, Lane::Slow);
        add(&mut queue, "b", 3, Lane::Fast);
        assert_eq!(queue.next(), Some(("b", vec![2, 3])));
        assert_eq!(queue.next(), Some(("a", vec![1])));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_key_is_worked_on_once_at_a_time() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 1, Lane::Fast);
        assert_eq!(queue.next(), Some(("a", vec![1])));
        queue.start("a");
        add(&mut queue, "a", 2, Lane::Fast);
        assert_eq!(queue.next(), None);
        queue.finish(&"a");
        assert_eq!(queue.next(), Some(("a", vec![2])));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gathered_comes_once_and_a_little_later() {
        let mut queue: Queue<&str, ()> = Queue::default();
        let delay = Duration::from_millis(100);
        for _ in 0..5 {
            queue.gather("a", delay);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert_eq!(queue.next(), None);
        assert_eq!(queue.take_due(Instant::now()), None);
        tokio::time::advance(delay).await;
        let now = Instant::now();
        assert_eq!(queue.take_due(now), Some(("a", ())));
        assert_eq!(queue.take_due(now), None);
        // What waits already needs no second look.
        queue.add("a", (), Lane::Slow, |(), ()| ());
        queue.gather("a", delay);
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_delay_ever_longer_until_a_success() {
        let mut queue: Queue<&str, Vec<u32>> = Queue::default();
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
        assert_eq!(delay_after(40), LONGEST_DELAY);
    }
}
