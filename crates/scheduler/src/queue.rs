//! The scheduling queue: what to decide next.
//!
//! A key is in one state at a time. Ready keys wait in one of two lanes: `fresh` for keys whose own
//! object changed or that are retried, `woken` for keys that wait for room and were woken because the
//! fleet changed. Fresh keys go first, with one woken key after every few of them, so that a flapping
//! cluster and thousands of waiting bindings never hold up new work. Within a lane the higher priority
//! goes first, then the older key. The queue is pure: the time is an argument.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::binding::BindingKey;

/// The first retry comes after this long; each further one doubles it.
pub const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// No retry waits longer.
pub const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A key that waits for the fleet to change is tried again after this long at the latest.
pub const MAX_WAITING: Duration = Duration::from_mins(5);
/// One woken key is served after this many fresh ones.
const FRESH_PER_WOKEN: u32 = 4;

/// In which order keys are served, and how failed ones come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// The higher priority first, then the older; failed keys come back after 1 to 10 s, and those that wait
    /// for the fleet when it changes.
    #[default]
    Priority,
    /// The older first, whatever its priority; every failed key comes back after an exponential delay, and
    /// no more often than a rate (the gate PriorityBasedScheduling is off).
    Arrival {
        /// The first delay; each further one doubles it.
        base: Duration,
        /// No delay is longer.
        max: Duration,
        /// Failed keys that come back each second.
        qps: u32,
        /// Failed keys that come back at once.
        burst: u32,
    },
}

/// How a cycle ended, as far as the queue is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well; the key is forgotten.
    Done,
    /// The key is tried again after its backoff.
    Retry,
    /// The key waits until the fleet changes.
    Wait,
    /// The key is tried again at once: another writer came first.
    Again,
}

/// How many keys are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Ready to be decided.
    pub active: usize,
    /// Waiting for their backoff.
    pub backoff: usize,
    /// Waiting for the fleet to change.
    pub waiting: usize,
    /// Being decided or written.
    pub processing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Fresh,
    Woken,
}

/// The order of ready keys: priority, then age, then arrival.
type Rank = (Reverse<i32>, Instant, u64);

/// What came for a key while it was being processed.
#[derive(Clone, Copy, Debug, Default)]
struct Meanwhile {
    /// Its own object changed.
    pushed: bool,
    /// The fleet changed in a way that concerns it.
    reconciled: bool,
    /// The fleet changed in a way that helps it, if it has failed.
    woken: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Ready { lane: Lane, rank: Rank },
    Processing(Meanwhile),
    Backoff { ready_at: Instant, serial: u64 },
    Waiting { since: Instant, serial: u64 },
}

#[derive(Debug)]
struct Item {
    state: State,
    priority: i32,
    attempts: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    items: HashMap<BindingKey, Item>,
    fresh: BTreeSet<(Rank, BindingKey)>,
    woken: BTreeSet<(Rank, BindingKey)>,
    backoff: BTreeSet<(Instant, u64, BindingKey)>,
    waiting: BTreeSet<(Instant, u64, BindingKey)>,
    processing: HashSet<BindingKey>,
    serial: u64,
    fresh_served: u32,
    order: QueueOrder,
    /// When the bucket of [`QueueOrder::Arrival`] would be full again.
    bucket_full_at: Option<Instant>,
}

impl Queue {
    /// An empty queue.
    pub fn new(order: QueueOrder) -> Self {
        Self {
            order,
            ..Self::default()
        }
    }

    /// Makes a key ready. A key that is ready already takes the new priority and keeps its age; a key that
    /// is being processed becomes ready again when it is done.
    pub fn push(&mut self, key: &BindingKey, priority: i32, now: Instant) {
        match self.items.get_mut(key) {
            None => {
                let item = Item {
                    state: State::Processing(Meanwhile::default()),
                    priority,
                    attempts: 0,
                };
                self.items.insert(key.clone(), item);
                self.make_ready(key, Lane::Fresh, now);
            }
            Some(item) => {
                item.priority = priority;
                match &mut item.state {
                    State::Processing(meanwhile) => meanwhile.pushed = true,
                    State::Ready {
                        lane: Lane::Fresh,
                        rank,
                    } if rank.0 == Reverse(priority) => {}
                    State::Ready {
                        lane: Lane::Fresh,
                        rank,
                    } => {
                        let age = rank.1;
                        self.take_out(key);
                        self.make_ready(key, Lane::Fresh, age);
                    }
                    State::Ready { .. } | State::Backoff { .. } | State::Waiting { .. } => {
                        self.take_out(key);
                        self.make_ready(key, Lane::Fresh, now);
                    }
                }
            }
        }
    }

    /// As [`Queue::push`], because the fleet changed: no [`Queue::calm`] takes that back.
    pub fn reconcile(&mut self, key: &BindingKey, priority: i32, now: Instant) {
        if let Some(Item {
            state: State::Processing(meanwhile),
            ..
        }) = self.items.get_mut(key)
        {
            meanwhile.reconciled = true;
        } else {
            self.push(key, priority, now);
        }
    }

    /// Makes a waiting key ready, behind new work. A key that is being processed will not begin to wait;
    /// ready keys are left as they are.
    pub fn wake(&mut self, key: &BindingKey, now: Instant) {
        match self.items.get_mut(key).map(|item| &mut item.state) {
            Some(State::Waiting { .. } | State::Backoff { .. }) => {
                self.take_out(key);
                self.make_ready(key, Lane::Woken, now);
            }
            Some(State::Processing(meanwhile)) => meanwhile.woken = true,
            Some(State::Ready { .. }) | None => {}
        }
    }

    /// The keys that [`Queue::wake`] would make ready, without those that are being processed.
    pub fn sleepers(&self) -> impl Iterator<Item = &BindingKey> {
        self.waiting
            .iter()
            .map(|(_, _, key)| key)
            .chain(self.backoff.iter().map(|(_, _, key)| key))
    }

    /// The keys that are being processed: what they wait for is not known yet.
    pub fn in_processing(&self) -> impl Iterator<Item = &BindingKey> {
        self.processing.iter()
    }

    /// The next key to decide; it counts as being processed until [`Queue::done`].
    pub fn pop(&mut self) -> Option<BindingKey> {
        let woken_turn = self.fresh_served >= FRESH_PER_WOKEN || self.fresh.is_empty();
        let key = if woken_turn && !self.woken.is_empty() {
            self.fresh_served = 0;
            self.woken.pop_first()?.1
        } else {
            self.fresh_served = self.fresh_served.saturating_add(1);
            self.fresh.pop_first()?.1
        };
        if let Some(item) = self.items.get_mut(&key) {
            item.state = State::Processing(Meanwhile::default());
            item.attempts = item.attempts.saturating_add(1);
            self.processing.insert(key.clone());
        }
        Some(key)
    }

    /// Ends the processing of a key.
    pub fn done(&mut self, key: &BindingKey, verdict: Verdict, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let State::Processing(meanwhile) = item.state else {
            return;
        };
        self.processing.remove(key);
        if verdict == Verdict::Done {
            item.attempts = 0;
        }
        let again = meanwhile.pushed
            || meanwhile.reconciled
            || (meanwhile.woken && verdict != Verdict::Done);
        if again || verdict == Verdict::Again {
            self.make_ready(key, Lane::Fresh, now);
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        let verdict = match (self.order, verdict) {
            (QueueOrder::Arrival { .. }, Verdict::Wait) => Verdict::Retry,
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Done | Verdict::Again => {
                self.items.remove(key);
            }
            Verdict::Retry => {
                let attempts = item.attempts;
                let ready_at = now + self.delay(attempts, now);
                let Some(item) = self.items.get_mut(key) else {
                    return;
                };
                item.state = State::Backoff { ready_at, serial };
                self.backoff.insert((ready_at, serial, key.clone()));
            }
            Verdict::Wait => {
                item.state = State::Waiting { since: now, serial };
                self.waiting.insert((now, serial, key.clone()));
            }
        }
    }

    /// Lets a key that backs off wait until then at least: the server has asked for it.
    pub fn postpone(&mut self, key: &BindingKey, until: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let State::Backoff { ready_at, serial } = item.state else {
            return;
        };
        if until > ready_at {
            item.state = State::Backoff {
                ready_at: until,
                serial,
            };
            self.backoff.remove(&(ready_at, serial, key.clone()));
            self.backoff.insert((until, serial, key.clone()));
        }
    }

    /// Takes back that the key was pushed while it is being processed: the change was our own write.
    pub fn calm(&mut self, key: &BindingKey) {
        if let Some(Item {
            state: State::Processing(meanwhile),
            ..
        }) = self.items.get_mut(key)
        {
            meanwhile.pushed = false;
        }
    }

    /// Forgets a key whose object is gone.
    pub fn remove(&mut self, key: &BindingKey) {
        match self.items.get(key).map(|item| item.state) {
            None | Some(State::Processing(_)) => self.calm(key),
            Some(_) => {
                self.take_out(key);
                self.items.remove(key);
            }
        }
    }

    /// Makes ready what has waited long enough.
    pub fn flush(&mut self, now: Instant) {
        while let Some((ready_at, _, key)) = self.backoff.first().cloned()
            && ready_at <= now
        {
            self.take_out(&key);
            self.make_ready(&key, Lane::Fresh, now);
        }
        while let Some((since, _, key)) = self.waiting.first().cloned()
            && since + MAX_WAITING <= now
        {
            self.take_out(&key);
            self.make_ready(&key, Lane::Woken, now);
        }
    }

    /// When [`Queue::flush`] has something to do next.
    pub fn next_flush(&self) -> Option<Instant> {
        let backoff = self.backoff.first().map(|(ready_at, ..)| *ready_at);
        let waiting = self.waiting.first().map(|(since, ..)| *since + MAX_WAITING);
        [backoff, waiting].into_iter().flatten().min()
    }

    /// Whether a key is ready.
    pub fn has_ready(&self) -> bool {
        !self.fresh.is_empty() || !self.woken.is_empty()
    }

    /// How many keys are in each state.
    pub fn depth(&self) -> Depth {
        Depth {
            active: self.fresh.len() + self.woken.len(),
            backoff: self.backoff.len(),
            waiting: self.waiting.len(),
            processing: self.processing.len(),
        }
    }

    /// Since when the longest-waiting ready key is ready.
    pub fn oldest_ready(&self) -> Option<Instant> {
        self.fresh
            .iter()
            .chain(&self.woken)
            .map(|((_, since, _), _)| *since)
            .min()
    }

    /// How long a key waits after so many attempts.
    fn delay(&mut self, attempts: u32, now: Instant) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        match self.order {
            QueueOrder::Priority => INITIAL_BACKOFF
                .saturating_mul(1 << doublings)
                .min(MAX_BACKOFF),
            QueueOrder::Arrival {
                base,
                max,
                qps,
                burst,
            } => {
                let own = base.saturating_mul(1 << doublings).min(max);
                let interval = Duration::from_secs(1) / qps.max(1);
                let full_at = self.bucket_full_at.map_or(now, |at| at.max(now)) + interval;
                self.bucket_full_at = Some(full_at);
                let shared = full_at
                    .duration_since(now)
                    .saturating_sub(interval.saturating_mul(burst));
                own.max(shared)
            }
        }
    }

    fn make_ready(&mut self, key: &BindingKey, lane: Lane, age: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        self.serial += 1;
        let priority = match self.order {
            QueueOrder::Priority => item.priority,
            QueueOrder::Arrival { .. } => 0,
        };
        let rank = (Reverse(priority), age, self.serial);
        item.state = State::Ready { lane, rank };
        match lane {
            Lane::Fresh => self.fresh.insert((rank, key.clone())),
            Lane::Woken => self.woken.insert((rank, key.clone())),
        };
    }

    /// Takes the key out of the container of its state.
    fn take_out(&mut self, key: &BindingKey) {
        let Some(item) = self.items.get(key) else {
            return;
        };
        match item.state {
            State::Ready {
                lane: Lane::Fresh,
                rank,
            } => self.fresh.remove(&(rank, key.clone())),
            State::Ready {
                lane: Lane::Woken,
                rank,
            } => self.woken.remove(&(rank, key.clone())),
            State::Backoff { ready_at, serial } => {
                self.backoff.remove(&(ready_at, serial, key.clone()))
            }
            State::Waiting { since, serial } => self.waiting.remove(&(since, serial, key.clone())),
            State::Processing(_) => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> BindingKey {
        BindingKey {
            namespace: Some("n".into()),
            name: name.into(),
        }
    }

    fn order(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|key| key.name.to_string())
            .collect()
    }

    #[test]
    fn a_change_of_the_fleet_during_the_write_is_not_lost() {
        let now = Instant::now();
        let ends = [
            ("woken, failed", true, Verdict::Wait, true),
            ("woken, to be retried", true, Verdict::Retry, true),
            ("woken, done", true, Verdict::Done, false),
            ("reconciled, done", false, Verdict::Done, true),
        ];
        for (name, woken, verdict, ready) in ends {
            let mut queue = Queue::default();
            queue.push(&key("a"), 0, now);
            queue.pop();
            assert_eq!(queue.in_processing().count(), 1, "{name}");
            // The event of the key's own write is calmed, the change of the fleet is not.
            queue.push(&key("a"), 0, now);
            if woken {
                queue.wake(&key("a"), now);
            } else {
                queue.reconcile(&key("a"), 0, now);
            }
            queue.calm(&key("a"));
            queue.done(&key("a"), verdict, now);
            assert_eq!(queue.pop().is_some(), ready, "{name}");
        }
    }

    #[test]
    fn higher_priority_first_then_older() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        queue.push(&key("old"), 0, start);
        queue.push(&key("new"), 0, start + Duration::from_millis(1));
        queue.push(&key("urgent"), 10, start + Duration::from_millis(2));
        assert_eq!(order(&mut queue), ["urgent", "old", "new"]);
    }

    #[test]
    fn a_priority_that_changes_while_queued_takes_effect() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        queue.push(&key("b"), 0, now);
        queue.push(&key("b"), 5, now);
        assert_eq!(order(&mut queue), ["b", "a"]);
    }

    #[test]
    fn a_key_pushed_while_processed_comes_again_with_its_new_priority() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        assert_eq!(queue.pop(), Some(key("a")));
        queue.push(&key("a"), 7, now);
        queue.push(&key("b"), 3, now);
        queue.done(&key("a"), Verdict::Wait, now);
        assert_eq!(order(&mut queue), ["a", "b"]);
    }

    #[test]
    fn our_own_write_does_not_bring_the_key_back() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        queue.pop();
        queue.push(&key("a"), 0, now);
        queue.calm(&key("a"));
        queue.done(&key("a"), Verdict::Done, now);
        assert_eq!(queue.depth(), Depth::default());
    }

    #[test]
    fn retries_back_off_from_one_to_ten_seconds() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        for expected in [1, 2, 4, 8, 10, 10] {
            queue.pop();
            queue.done(&key("a"), Verdict::Retry, now);
            let wait = Duration::from_secs(expected);
            assert_eq!(queue.next_flush(), Some(now + wait));
            queue.flush(now + wait.saturating_sub(Duration::from_millis(1)));
            assert!(!queue.has_ready());
            now += wait;
            queue.flush(now);
            assert!(queue.has_ready());
        }
    }

    #[test]
    fn a_server_that_asks_for_patience_gets_it() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        queue.pop();
        queue.done(&key("a"), Verdict::Retry, now);
        queue.postpone(&key("a"), now + Duration::from_secs(7));
        assert_eq!(queue.next_flush(), Some(now + Duration::from_secs(7)));
        queue.postpone(&key("a"), now);
        assert_eq!(queue.next_flush(), Some(now + Duration::from_secs(7)));
        assert_eq!(queue.depth().backoff, 1);
    }

    #[test]
    fn success_forgets_the_attempts() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(&key("a"), 0, now);
        queue.pop();
        queue.done(&key("a"), Verdict::Retry, now);
        queue.push(&key("a"), 0, now);
        queue.pop();
        queue.done(&key("a"), Verdict::Done, now);
        queue.push(&key("a"), 0, now);
        queue.pop();
        queue.done(&key("a"), Verdict::Retry, now);
        assert_eq!(queue.next_flush(), Some(now + INITIAL_BACKOFF));
    }

    #[test]
    fn a_waiting_key_comes_back_when_woken_pushed_or_after_five_minutes() {
        let now = Instant::now();
        let waiting = || {
            let mut queue = Queue::default();
            queue.push(&key("a"), 0, now);
            queue.pop();
            queue.done(&key("a"), Verdict::Wait, now);
            queue
        };
        let mut queue = waiting();
        queue.flush(now + MAX_WAITING.saturating_sub(Duration::from_secs(1)));
        assert!(!queue.has_ready());
        queue.flush(now + MAX_WAITING);
        assert_eq!(queue.pop(), Some(key("a")));
        let mut queue = waiting();
        queue.wake(&key("a"), now);
        assert_eq!(queue.pop(), Some(key("a")));
        let mut queue = waiting();
        queue.push(&key("a"), 0, now);
        assert_eq!(queue.pop(), Some(key("a")));
        assert_eq!(queue.sleepers().count(), 0);
    }

    #[test]
    fn woken_keys_go_behind_new_work_but_are_not_starved() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["w0", "w1"] {
            queue.push(&key(name), 100, now);
            queue.pop();
            queue.done(&key(name), Verdict::Wait, now);
            queue.wake(&key(name), now);
        }
        for name in ["f0", "f1", "f2", "f3", "f4"] {
            queue.push(&key(name), 0, now + Duration::from_secs(1));
        }
        queue.fresh_served = 0;
        assert_eq!(
            order(&mut queue),
            ["f0", "f1", "f2", "f3", "w0", "f4", "w1"]
        );
    }

    #[test]
    fn a_removed_key_is_gone_from_every_state() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (name, verdict) in [
            ("ready", None),
            ("backoff", Some(Verdict::Retry)),
            ("waiting", Some(Verdict::Wait)),
        ] {
            queue.push(&key(name), 0, now);
            if let Some(verdict) = verdict {
                queue.pop();
                queue.done(&key(name), verdict, now);
            }
            queue.remove(&key(name));
            assert_eq!(queue.depth(), Depth::default(), "{name}");
        }
    }

    #[test]
    fn without_priorities_the_older_goes_first_and_delays_are_those_of_the_flags() {
        let order = QueueOrder::Arrival {
            base: Duration::from_millis(5),
            max: Duration::from_millis(20),
            qps: 10,
            burst: 3,
        };
        let (mut queue, now) = (Queue::new(order), Instant::now());
        queue.push(&key("old"), 0, now);
        queue.push(&key("urgent"), 100, now + Duration::from_millis(1));
        assert_eq!(queue.pop(), Some(key("old")));
        for expected in [5, 10, 20, 100] {
            // The fourth failure within a moment is one more than the bucket holds.
            queue.done(&key("old"), Verdict::Wait, now);
            assert_eq!(
                queue.next_flush(),
                Some(now + Duration::from_millis(expected))
            );
            queue.push(&key("old"), 0, now);
            assert_eq!(queue.pop(), Some(key("old")));
        }
    }
}
