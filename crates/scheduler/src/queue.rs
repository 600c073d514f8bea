//! The scheduling queue: what to decide next.
//!
//! A key is in one state at a time. Ready keys wait in one of two lanes: `fresh` for keys whose own
//! object changed or that are retried, `woken` for keys that wait for room and were woken because the
//! fleet changed. Fresh keys go first, with one woken key after every few of them, so that a flapping
//! cluster and thousands of waiting bindings never hold up new work. Within a lane the greater
//! rank goes first, then the older key. The queue is pure: the time is an argument.

mod backoff;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::binding::BindingKey;
use backoff::Backoffs;
pub use backoff::{INITIAL_BACKOFF, MAX_BACKOFF, QueueOrder};

/// A key that waits for the fleet to change is tried again after this long at the latest.
pub const MAX_WAITING: Duration = Duration::from_mins(5);
/// One woken key is served after this many fresh ones.
const FRESH_PER_WOKEN: u32 = 4;

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

/// A place in the queue: the first number that differs decides, the greater goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub [i64; 3]);

impl Rank {
    /// A rank of one number.
    pub const fn of(number: i64) -> Self {
        Self([number, 0, 0])
    }
}

/// The order of ready keys: rank, then age, then arrival.
type Place = (Reverse<Rank>, Instant, u64);

/// What came for a key while it was being processed.
#[derive(Clone, Copy, Debug, Default)]
struct Meanwhile {
    /// Its own object changed.
    pushed: bool,
    /// The fleet changed in a way that concerns it.
    reconciled: bool,
    /// When it comes again, if it has failed.
    wake: Wake,
}

/// When a key that has failed comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// As its verdict says.
    #[default]
    AsDecided,
    /// After its backoff.
    Later,
    /// At once: the fleet changed in a way that helps it.
    Now,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Ready { lane: Lane, place: Place },
    Processing(Meanwhile),
    Backoff { ready_at: Instant, serial: u64 },
    Waiting { since: Instant, serial: u64 },
}

#[derive(Debug)]
struct Item {
    state: State,
    rank: Rank,
    attempts: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    items: HashMap<BindingKey, Item>,
    fresh: BTreeSet<(Place, BindingKey)>,
    woken: BTreeSet<(Place, BindingKey)>,
    backoff: BTreeSet<(Instant, u64, BindingKey)>,
    waiting: BTreeSet<(Instant, u64, BindingKey)>,
    processing: HashSet<BindingKey>,
    serial: u64,
    fresh_served: u32,
    backoffs: Backoffs,
}

impl Queue {
    /// An empty queue.
    pub fn new(order: QueueOrder) -> Self {
        Self {
            backoffs: Backoffs::new(order),
            ..Self::default()
        }
    }

    /// Makes a key ready. A key that is ready already takes the new rank and keeps its age; a key that
    /// is being processed becomes ready again when it is done.
    pub fn push(&mut self, key: &BindingKey, rank: Rank, now: Instant) {
        match self.items.get_mut(key) {
            None => {
                let item = Item {
                    state: State::Processing(Meanwhile::default()),
                    rank,
                    attempts: 0,
                };
                self.items.insert(key.clone(), item);
                self.make_ready(key, Lane::Fresh, now);
            }
            Some(item) => {
                item.rank = rank;
                match &mut item.state {
                    State::Processing(meanwhile) => meanwhile.pushed = true,
                    State::Ready {
                        lane: Lane::Fresh,
                        place,
                    } if place.0 == Reverse(rank) => {}
                    State::Ready {
                        lane: Lane::Fresh,
                        place,
                    } => {
                        let age = place.1;
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
    pub fn reconcile(&mut self, key: &BindingKey, rank: Rank, now: Instant) {
        if let Some(Item {
            state: State::Processing(meanwhile),
            ..
        }) = self.items.get_mut(key)
        {
            meanwhile.reconciled = true;
        } else {
            self.push(key, rank, now);
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
            Some(State::Processing(meanwhile)) => meanwhile.wake = Wake::Now,
            Some(State::Ready { .. }) | None => {}
        }
    }

    /// Gives a key another rank, wherever it is; it keeps its lane and its age.
    pub fn rerank(&mut self, key: &BindingKey, rank: Rank) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut item.rank, rank);
        if let State::Ready { lane, place } = item.state
            && before != rank
        {
            self.take_out(key);
            self.make_ready(key, lane, place.1);
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
        self.pop_with_age().map(|(key, _)| key)
    }

    /// As [`Queue::pop`], with the time since when the key was ready.
    pub fn pop_with_age(&mut self) -> Option<(BindingKey, Instant)> {
        let woken_turn = self.fresh_served >= FRESH_PER_WOKEN || self.fresh.is_empty();
        let ((_, since, _), key) = if woken_turn && !self.woken.is_empty() {
            self.fresh_served = 0;
            self.woken.pop_first()?
        } else {
            self.fresh_served = self.fresh_served.saturating_add(1);
            self.fresh.pop_first()?
        };
        if let Some(item) = self.items.get_mut(&key) {
            item.state = State::Processing(Meanwhile::default());
            item.attempts = item.attempts.saturating_add(1);
            self.processing.insert(key.clone());
        }
        Some((key, since))
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
            || (meanwhile.wake == Wake::Now && verdict != Verdict::Done);
        if again || verdict == Verdict::Again {
            self.make_ready(key, Lane::Fresh, now);
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        let verdict = match (self.backoffs.order(), verdict) {
            (QueueOrder::Arrival { .. }, Verdict::Wait) => Verdict::Retry,
            (_, Verdict::Wait) if meanwhile.wake == Wake::Later => Verdict::Retry,
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Done | Verdict::Again => {
                self.items.remove(key);
            }
            Verdict::Retry => {
                let attempts = item.attempts;
                let ready_at = now + self.backoffs.delay(attempts, now);
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

    /// Lets a waiting key, or one that is about to wait, come again after its backoff.
    pub fn wake_later(&mut self, key: &BindingKey, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let attempts = item.attempts;
        match &mut item.state {
            State::Waiting { .. } => {}
            State::Processing(meanwhile) => {
                meanwhile.wake = meanwhile.wake.max(Wake::Later);
                return;
            }
            State::Ready { .. } | State::Backoff { .. } => return,
        }
        self.take_out(key);
        let ready_at = now + self.backoffs.delay(attempts, now);
        self.serial += 1;
        let serial = self.serial;
        if let Some(item) = self.items.get_mut(key) {
            item.state = State::Backoff { ready_at, serial };
            self.backoff.insert((ready_at, serial, key.clone()));
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

    fn make_ready(&mut self, key: &BindingKey, lane: Lane, age: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        self.serial += 1;
        let rank = match self.backoffs.order() {
            QueueOrder::Priority => item.rank,
            QueueOrder::Arrival { .. } => Rank::default(),
        };
        let place = (Reverse(rank), age, self.serial);
        item.state = State::Ready { lane, place };
        match lane {
            Lane::Fresh => self.fresh.insert((place, key.clone())),
            Lane::Woken => self.woken.insert((place, key.clone())),
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
                place,
            } => self.fresh.remove(&(place, key.clone())),
            State::Ready {
                lane: Lane::Woken,
                place,
            } => self.woken.remove(&(place, key.clone())),
            State::Backoff { ready_at, serial } => {
                self.backoff.remove(&(ready_at, serial, key.clone()))
            }
            State::Waiting { since, serial } => self.waiting.remove(&(since, serial, key.clone())),
            State::Processing(_) => false,
        };
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
